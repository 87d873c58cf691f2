"""A process beside the test that works in copies of itself, which die at a chosen moment or are killed at a random one.

Run as `python -m tests.process.work_child`. Takes one JSON command per line and answers with one JSON line each.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hermes_store import HermesStoreError, Store, Unit
from tests.process import upgrade_faults as faults
from tests.process import work

T = TypeVar("T")

MOMENTS: dict[str, Callable[[int | None], faults.Count]] = {
    "statements": faults.watch_statements,
    "steps": faults.watch_steps,
    "writes": lambda fatal: faults.watch_writes(os.environ["HERMES_STORE_SQLITE_DRIVER"], fatal),
    "half writes": lambda fatal: faults.watch_writes(os.environ["HERMES_STORE_SQLITE_DRIVER"], fatal, torn=True),
}


def say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


class Copy:
    """A forked copy of this process with an action of its own, and a pipe on which it tells numbers."""

    def __init__(self, environment: Mapping[str, str], action: Callable[[Callable[[int], object]], None]) -> None:
        hearing, telling = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            os.close(hearing)
            _live(environment, lambda: action(lambda number: os.write(telling, b"%d\n" % number)))
        os.close(telling)
        self._stream = os.fdopen(hearing, "rb")

    def hear(self) -> int | None:
        """The next number; None when there will be no more."""
        line = self._stream.readline()
        return int(line) if line.endswith(b"\n") else None

    def kill(self) -> None:
        os.kill(self._process, signal.SIGKILL)

    def rest(self) -> list[int]:
        """All further numbers."""
        return list(iter(self.hear, None))

    def end(self) -> bool:
        """Wait for its end; whether it was killed."""
        self._stream.close()
        _, status = os.waitpid(self._process, 0)
        if os.WIFSIGNALED(status):
            return True
        if os.waitstatus_to_exitcode(status) != 0:
            raise RuntimeError("the work failed; its traceback is above")
        return False


def _live(environment: Mapping[str, str], action: Callable[[], None]) -> None:
    """The whole life of a copy."""
    code = 1
    try:
        # What an action prints is no answer.
        os.dup2(2, 1)
        os.environ.update(environment)
        action()
        code = 0
    except BaseException:  # noqa: BLE001 - it is printed, and the code tells of it
        traceback.print_exc()
    finally:
        os._exit(code)


def count(path: str, kind: str, moments: str, environment: Mapping[str, str]) -> int:
    """Work to the end; how many moments there were."""

    def action(tell: Callable[[int], object]) -> None:
        counted = MOMENTS[moments](None)
        work.run(Path(path), kind, 0, work.KINDS[kind].steps, lambda number: None)
        tell(counted.value)

    copy = Copy(environment, action)
    (total,) = copy.rest()
    copy.end()
    return total


def die_at(path: str, kind: str, moments: str, fatal: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """Work, and die at a moment; the units that were acknowledged by then."""

    def action(tell: Callable[[int], object]) -> None:
        MOMENTS[moments](fatal)
        work.run(Path(path), kind, 0, work.KINDS[kind].steps, tell)

    copy = Copy(environment, action)
    acknowledged = copy.rest()
    return {"acknowledged": acknowledged, "killed": copy.end()}


def kill_after(
    path: str, kind: str, begin: int, units: int, part: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Kill somebody at work so many units and a part of the next one later; the units that were acknowledged."""

    def action(tell: Callable[[int], object]) -> None:
        work.run(Path(path), kind, begin, 1_000_000, tell)

    began = time.perf_counter()
    copy = Copy(environment, action)
    acknowledged: list[int] = []
    while len(acknowledged) < units:
        number = copy.hear()
        if number is None:
            break
        acknowledged.append(number)
    due = time.perf_counter() + part * (time.perf_counter() - began) / max(1, units)
    while time.perf_counter() < due:
        pass
    copy.kill()
    acknowledged += copy.rest()
    return {"acknowledged": acknowledged, "killed": copy.end()}


def fill_up(path: str, writes: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """Work through one handle on a disk that takes so many writes, and append to it when there is room again."""
    hearing, telling = os.pipe()

    def action(_: object) -> None:
        os.write(telling, json.dumps(_fill_up(Path(path), writes)).encode())

    copy = Copy(environment, action)
    os.close(telling)
    with os.fdopen(hearing, "rb") as stream:
        told: dict[str, Any] = json.loads(stream.read())
    copy.end()
    return told


def _fill_up(path: Path, writes: int) -> dict[str, Any]:
    disk = faults.Disk(os.environ["HERMES_STORE_SQLITE_DRIVER"], writes)
    failed: list[list[str]] = []
    texts: list[str] = []

    def attempt(action: Callable[[], object], *adds: str) -> None:
        try:
            action()
        except HermesStoreError as exc:
            failed.append([cls.__name__ for cls in type(exc).__mro__])
        else:
            texts.extend(adds)

    def attempt_until_it_is_done(action: Callable[[], T]) -> T:
        done: list[T] = []
        attempt(lambda: done.append(action()))
        if not done:
            disk.has_room = True
            done.append(action())
            disk.has_room = False
        return done[0]

    store = attempt_until_it_is_done(lambda: Store.open(path))
    attempt_until_it_is_done(lambda: store.write(lambda unit: unit.create_session("a", "cli")))
    for turn in range(3):
        one, two, three = (f"unit {turn}/{part} " + work.LARGE * part for part in range(3))
        attempt(lambda one=one: store.append("a", "user", {"content": one}), one)  # type: ignore[misc]

        def body(unit: Unit, texts: tuple[str, str] = (two, three)) -> None:
            for text in texts:
                unit.append("a", "user", text)

        attempt(lambda body=body: store.write(body), two, three)  # type: ignore[misc]
        attempt(store.vacuum)
    disk.has_room = True
    store.append("a", "user", {"content": "last"})
    store.close()
    return {"writes": writes - disk.left, "failed": failed, "texts": texts}


COMMANDS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (count, die_at, kill_after, fill_up)}


def main() -> None:
    for name in ("hermes_store.compat", "hermes_store.schema.environment"):
        importlib.import_module(name)
    say("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        say(COMMANDS[name](**arguments))


if __name__ == "__main__":
    main()
