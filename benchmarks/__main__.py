"""`python -m benchmarks`: time the library beside its floors. Data goes to stdout, talk to stderr."""

import argparse
import json
import os
import platform
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.cases import CASES, Case, Workbench, chosen
from benchmarks.runner import Result, ResultDiffers, as_json, measure, show, summarise
from benchmarks.seed import seeded_store
from benchmarks.tail import APPENDS, NAME, WORK, Tail, measure_tail, show_tail
from hermes_store import HermesStoreError, Settings
from hermes_store.database import choose_driver

DRIVER_VARIABLE = "HERMES_STORE_SQLITE_DRIVER"
WIDTH = 150  # columns, where stdout is no terminal


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time every case beside its floor: the same work written by hand on the same DB-API module.",
        epilog=f"cases: {', '.join((*(case.name for case in CASES), NAME))}",
    )
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="only cases that begin so; repeats")
    parser.add_argument("--rounds", type=_positive, help="samples of each side (default 15)")
    parser.add_argument("--messages", type=_messages, help="messages of the seeded store, at least 200 (default 10000)")
    parser.add_argument("--seed", type=int, default=7, help="of the random texts (default 7)")
    parser.add_argument("--json", metavar="FILE", help="write the results there; - for stdout, the table to stderr")
    parser.add_argument("--driver", choices=("sqlite3", "pysqlite3"), help="default: what the library chooses")
    parser.add_argument("--quick", action="store_true", help="200 messages, 2 rounds: does it run and agree?")
    return parser.parse_args(given)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _messages(text: str) -> int:
    number = int(text)
    if number < 200:
        raise argparse.ArgumentTypeError("at least 200")
    return number


def main(given: list[str] | None = None) -> int:
    """0, however slow; 1 if a result differs from its floor's."""
    options = _arguments(given)
    rounds = options.rounds or (2 if options.quick else 15)
    messages = options.messages or (200 if options.quick else 10_000)
    talk = Console(stderr=True)
    if options.driver is not None:
        os.environ[DRIVER_VARIABLE] = options.driver
    settings = Settings.from_environment()
    try:
        has_tail = not options.case or any(NAME.startswith(name) and name != "append" for name in options.case)
        others = [name for name in options.case if name == "append" or not NAME.startswith(name)]
        cases = chosen(others) if others or not options.case else []
        driver = choose_driver(settings.driver)
    except (LookupError, HermesStoreError) as exc:
        talk.print(str(exc), markup=False)
        return 2
    talk.print(f"a store of {messages:,} messages ...", style="dim")
    source = seeded_store(messages, options.seed, driver, settings)
    results: list[Result] = []
    differing: dict[str, str] = {}
    with ExitStack() as stack:
        bench = Workbench(source, driver, stack)
        for case in cases:
            talk.print(f"{case.name}: {case.work} ...", style="dim", markup=False)
            try:
                results.append(_run(case, bench, rounds=rounds, seconds=0.005 if options.quick else 0.1))
            except ResultDiffers as exc:
                differing[case.name] = str(exc)
        tail: Tail | None = None
        if has_tail:
            talk.print(f"{NAME}: {WORK} ...", style="dim", markup=False)
            try:
                tail = measure_tail(bench, 200 if options.quick else APPENDS)
            except ResultDiffers as exc:
                differing[NAME] = str(exc)
        mode = bench.journal_mode
    environment: dict[str, Any] = {
        "Python": platform.python_version(),
        "driver": driver.name,
        "SQLite": driver.version_text,
        "journal": mode,
        "messages": messages,
        "seed": options.seed,
    }
    _report(options.json, results, tail, environment, differing)
    for name, where in differing.items():
        talk.print(f"{name} differs from its floor: {where}", style="red", markup=False)
    return 1 if differing else 0


def _run(case: Case, bench: Workbench, *, rounds: int, seconds: float) -> Result:
    measured = measure(case.prepare(bench), rounds=rounds, seconds=seconds)
    return summarise(case.name, case.work, case.target, binding=case.binding, measured=measured)


def _report(
    target: str | None,
    results: list[Result],
    tail: Tail | None,
    environment: dict[str, Any],
    differing: dict[str, str],
) -> None:
    found = as_json(results, environment, differing)
    if tail is not None:
        found["tail"] = {**asdict(tail), "verdicts": tail.verdicts()}
    data = json.dumps(found, indent=2)
    table = Console(stderr=target == "-")
    if not table.is_terminal:
        table = Console(stderr=target == "-", width=WIDTH)
    if results:
        show(table, results, environment)
    if tail is not None:
        show_tail(table, tail)
    if target == "-":
        print(data)
    elif target is not None:
        Path(target).write_text(data + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
