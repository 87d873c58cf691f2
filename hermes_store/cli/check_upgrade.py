"""`hermes-store db check-upgrade`: does every old file survive the upgrade (rule TEST-4)."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import click

from hermes_store.cli.options import Options, pass_options
from hermes_store.cli.output import EXIT_FAILED, clean, print_json, print_table, talk, write_line
from hermes_store.errors import OpenFailed
from hermes_store.maintenance.check_upgrade import UpgradeCheck, check_upgrade, find_snapshots

_MEGABYTE = 1_000_000


class ChecksFailed(click.ClickException):
    """Files did not pass; what was wrong with them is said already."""

    exit_code = EXIT_FAILED

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click passes one
        """One line on stderr."""
        talk(self.message)


@click.command(name="check-upgrade")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
@click.option("-v", "--verbose", is_flag=True, help="Say too what was changed on purpose, and why.")
@pass_options
def check_upgrades(options: Options, paths: tuple[Path, ...], *, as_json: bool, verbose: bool) -> None:
    """Upgrade copies of old files and verify that nothing is lost; the files themselves are only read.

    Of a DIR every *.db is checked. Exit code 1 if a check failed, 2 if there is nothing to check.
    """
    try:
        snapshots = find_snapshots(paths)
    except OpenFailed as exc:
        raise click.UsageError(clean(exc)) from exc
    as_json = as_json or options.json
    checks = [_check(path, len(snapshots), quietly=as_json) for path in snapshots]
    failed = [check for check in checks if not check.ok]
    if as_json:
        print_json({"ok": not failed, "checks": [check.as_dict() for check in checks]})
    else:
        _show(checks, verbose=verbose)
    if failed:
        raise ChecksFailed(f"{len(failed)} of {len(checks)} files do not pass")


def _check(path: Path, count: int, *, quietly: bool) -> UpgradeCheck:
    if not quietly and count > 1 and sys.stderr is not None and sys.stderr.isatty():
        talk(f"checking {path}")
    return check_upgrade(path)


def names_of(paths: Sequence[Path]) -> list[str]:
    """A name for every path: that of the file, with as many of its folders as tell it from the others."""
    shown = [1] * len(paths)
    parts = [path.absolute().parts for path in paths]
    while True:
        names = [str(Path(*each[-count:])) for each, count in zip(parts, shown, strict=True)]
        held = Counter(names)
        longer = [
            place
            for place, name in enumerate(names)
            # The same path twice has nothing that tells it apart.
            if held[name] > 1 and len({parts[other] for other, same in enumerate(names) if same == name}) > 1
        ]
        if not longer:
            return names
        for place in longer:
            shown[place] += 1


def _show(checks: list[UpgradeCheck], *, verbose: bool) -> None:
    names = names_of([check.path for check in checks])
    print_table(
        ("file", "stamp", "revision", "messages", "seconds", "memory", "verdict"),
        [
            (
                name,
                "-" if check.stamp is None else check.stamp,
                check.revision or "-",
                f"{check.messages:,}",
                "-" if check.seconds is None else f"{check.seconds:.2f}",
                "-" if check.peak is None else f"{check.peak / _MEGABYTE:.1f} MB",
                "ok" if check.ok else "FAILED",
            )
            for name, check in zip(names, checks, strict=True)
        ],
    )
    for name, check in zip(names, checks, strict=True):
        lines = [f"FAILED: {problem}" for problem in check.problems]
        if verbose:
            lines.extend(f"{used.name}, {used.count} times: {used.reason}" for used in check.exceptions)
            lines.extend(f"note: {note}" for note in check.notes)
        for line in lines:
            write_line(" ".join(clean(f"{name}: {line}").split("\n")))
