"""A process beside the test that upgrades files, in copies of itself, which may die at a chosen moment.

Run as `python -m tests.process.upgrade_child`. Takes one JSON command per line and answers with one JSON line each.
All that an upgrade needs is imported before the first command, so that a forked copy begins at once.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_store import HermesStoreError, Store, connect
from hermes_store.maintenance.upgrade_child import peak_memory
from hermes_store.settings import Settings
from tests.process import upgrade_faults as faults

INI = Path(__file__).parents[2] / "alembic.ini"

DEFAULT_CACHE = -2000
"""SQLite's own size of the cache, in KiB, which are negative."""

kept: list[Any] = []
"""Connections that outlive their command."""


def say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def attempt(action: Callable[[], Any]) -> dict[str, Any]:
    """What an action gives, or the names of the error that it raised."""
    try:
        return {"result": action()}
    except HermesStoreError as exc:
        return {"error": [cls.__name__ for cls in type(exc).__mro__], "text": str(exc)}


# -- actions, each in a process of its own ----------------------------------------------------------------------


def upgrade(path: str, backup: bool = False) -> dict[str, Any]:
    """Open the file; the report."""
    with Store.open(path, backup=backup) as store:
        return store.report.as_dict()


def upgrade_until(path: str, kind: str, fatal: int | None, torn: bool = False, backup: bool = False) -> int:
    """Open the file and die at the fatal moment; without one the number of moments."""
    if kind == "writes":
        count = faults.watch_writes(os.environ["HERMES_STORE_SQLITE_DRIVER"], fatal, torn=torn)
    elif kind == "steps":
        count = faults.watch_steps(fatal)
    else:
        count = faults.watch_statements(fatal)
    upgrade(path, backup)
    return count.value


def upgrade_on_a_full_disk(path: str, writes: int, again: bool = False, backup: bool = False) -> list[dict[str, Any]]:
    """Open the file on a disk that takes so many writes; with `again` once more when there is room."""
    disk = faults.Disk(os.environ["HERMES_STORE_SQLITE_DRIVER"], writes)
    answers = [attempt(lambda: upgrade(path, backup))]
    if again:
        disk.has_room = True
        answers.append(attempt(lambda: upgrade(path)))
    return answers


def upgrade_within(path: str, limit: int) -> list[dict[str, Any]]:
    """Open the file while no file may be larger than so many bytes, and once more without a limit."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    first = attempt(lambda: upgrade(path))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return [first, attempt(lambda: upgrade(path))]


def read(path: str, times: int) -> list[list[int]]:
    """Open the file for reading again and again; numbers of sessions and messages, each that was met once."""
    met = set()
    for _ in range(times):
        with Store.open(path, read_only=True) as store, store.reader() as reader:
            met.add((reader.sessions.count(), reader.messages.count()))
    return [list(each) for each in sorted(met)]


def alembic(path: str) -> int:
    """`alembic upgrade head`; the exit code."""
    from alembic.config import main as run

    try:
        run(["-c", str(INI), "-x", f"db={path}", "upgrade", "head"])
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    return 0


ACTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (upgrade, upgrade_until, upgrade_on_a_full_disk, upgrade_within, read, alembic)
}


def _run_apart(
    name: str, arguments: Mapping[str, Any], environment: Mapping[str, str], start: int, answer: int
) -> None:
    """The whole life of a forked copy."""
    code = 1
    try:
        # What an action prints is no answer.
        os.dup2(2, 1)
        os.environ.update(environment)
        os.read(start, 1)
        os.write(answer, json.dumps(attempt(lambda: ACTIONS[name](**arguments))).encode())
        code = 0
    except BaseException:  # noqa: BLE001 - it is printed, and the code tells of it
        traceback.print_exc()
    finally:
        os._exit(code)


def together(actions: Sequence[tuple[str, Mapping[str, Any]]], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Do all actions at the same moment, each in a process of its own; what each gave, or the signal that ended it."""
    waiting, starting = os.pipe()
    started = []
    for name, arguments in actions:
        hearing, telling = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(starting)
            _run_apart(name, arguments, environment, waiting, telling)
        os.close(telling)
        started.append((child, hearing))
    os.close(waiting)
    os.close(starting)  # now
    return [_outcome(child, hearing) for child, hearing in started]


def _outcome(child: int, hearing: int) -> dict[str, Any]:
    with os.fdopen(hearing, "rb") as stream:
        said = stream.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("an action failed; its traceback is above")
    outcome: dict[str, Any] = json.loads(said)
    return outcome


def killed_by_chance(path: str, moment: float, while_committing: bool, environment: Mapping[str, str]) -> bool:
    """Upgrade in another process and kill it after so many seconds, of its life or of its first commit.

    False if the upgrade had ended before.
    """
    hearing, telling = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(hearing)
            os.environ.update(environment)
            if while_committing:
                faults.when_committing(lambda: os.close(telling))
            else:
                os.close(telling)
            upgrade(path)
            code = 0
        except BaseException:  # noqa: BLE001 - it is printed, and the code tells of it
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(telling)
    os.read(hearing, 1)
    os.close(hearing)
    due = time.perf_counter() + moment
    while time.perf_counter() < due:
        pass
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("the upgrade failed; its traceback is above")
    return os.WIFSIGNALED(status)


# -- commands of this very process ------------------------------------------------------------------------------


def hold_at(path: str, step: str, driver: str, pages: int | None = None) -> dict[str, Any]:
    """Upgrade, and stop before the step until a line comes; `pages` that may be kept in memory."""
    # A command before this one may have left another number behind.
    faults.on_every_connection(
        lambda opened: opened.execute(f"PRAGMA cache_size={DEFAULT_CACHE if pages is None else pages}")
    )

    def progress(begun: str) -> None:
        if begun.startswith(step):
            say("holding")
            sys.stdin.readline()

    with Store.open(path, settings=replace(Settings(), driver=driver), progress=progress) as store:
        return store.report.as_dict()


def lock(path: str, driver: str, begin: str) -> bool:
    """Take a lock on the file and keep it."""
    connection = connect(path, driver=driver)
    connection.execute(begin)
    kept.append(connection)
    return connection.in_transaction


def release() -> None:
    """Give back what was locked."""
    while kept:
        connection = kept.pop()
        connection.execute("ROLLBACK")
        connection.close()


def measured(path: str, driver: str) -> dict[str, Any]:
    """Upgrade, and open once more: steps, seconds, and bytes of memory above what the imports took."""
    steps: list[str] = []
    settings = replace(Settings(), driver=driver)
    imported = peak_memory()
    began = time.perf_counter()
    with Store.open(path, settings=settings, progress=steps.append) as store:
        report = store.report.as_dict()
    seconds = time.perf_counter() - began
    peak = peak_memory()
    assert peak is not None
    assert imported is not None
    again: list[str] = []
    faults.on_every_connection(lambda opened: opened.set_trace_callback(again.append))
    began = time.perf_counter()
    with Store.open(path, settings=settings) as store:
        second = store.report.as_dict()
    return {
        "steps": steps,
        "report": report,
        "seconds": seconds,
        "memory": peak - imported,
        "second": second,
        "second seconds": time.perf_counter() - began,
        "second statements": again,
    }


COMMANDS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (together, killed_by_chance, hold_at, lock, release, measured)
}


def main() -> None:
    importlib.import_module("hermes_store.schema.environment")
    say("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        say(COMMANDS[name](**arguments))


if __name__ == "__main__":
    main()
