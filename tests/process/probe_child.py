"""A process that uses everything a store has to offer, and notes each plain opening of one of its files.

Run as `python -m tests.process.probe_child`. Takes one JSON command per line and answers with one JSON line each.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_store import HermesStoreError, SessionDB, Settings, Store
from hermes_store.database import database as database_module
from hermes_store.maintenance import optimize as optimize_module
from tests.process.probe_calls import CALLS, World
from tests.process.watching import Watch


def say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def seed(path: Path) -> None:
    with SessionDB(path) as db:
        db.create_session("kept", "cli")
        db.set_session_title("kept", "Otters")
        db.append_message("kept", "user", "the first otter 水獭在这里")


def use_everything(path: str) -> dict[str, Any]:
    """Every call, twice; which plain openings there were, and which of those that are made on purpose were noticed."""
    file = Path(path)
    seed(file)
    watch = Watch()
    world = World(file, watch)
    watch.armed = True
    failed = []
    for name, call in [*CALLS.items(), *CALLS.items()]:
        try:
            call(world)
        except HermesStoreError as exc:
            failed.append(f"{name}: {exc!r}")
    seen = list(watch.seen)
    noticed = _on_purpose(watch, world)
    watch.seen.clear()
    world.close()
    return {"seen": seen + watch.seen, "failed": failed, "calls": list(CALLS), "noticed": noticed}


def _on_purpose(watch: Watch, world: World) -> dict[str, bool]:
    """Whether the watch notices what it is there for."""
    copy = world.folder / "copy.db"
    ways: dict[str, Callable[[], object]] = {
        "open": lambda: world.path.open("rb").close(),
        "link": lambda: world.link.read_bytes(),
        "os.open": lambda: os.close(os.open(os.path.relpath(world.path), os.O_RDONLY)),
        "bytes": lambda: open(os.fsencode(world.path), "ab").close(),  # noqa: PTH123 - another way
        "copy": lambda: shutil.copyfile(world.path, copy),
        "sidecar": lambda: Path(f"{world.path}-journal").read_bytes(),
        "rename": lambda: world.path.replace(world.path),
        "nothing": copy.read_bytes,
    }
    noticed = {}
    for name, way in ways.items():
        watch.seen.clear()
        with contextlib.suppress(FileNotFoundError):
            way()
        noticed[name] = bool(watch.seen)
    return noticed


class Held:
    """A unit that stays open in a thread of its own, and other handles beside it that do not wait for it."""

    def __init__(self, path: Path) -> None:
        seed(path)
        self._end = threading.Event()
        self._store = Store.open(path)
        begun = threading.Event()

        def hold() -> None:
            with self._store.transaction() as unit:
                unit.append("kept", "user", "held")
                begun.set()
                self._end.wait()

        self._thread = threading.Thread(target=hold, daemon=True)
        self._thread.start()
        begun.wait()
        impatient = replace(Settings.from_environment(), patience=0.0, transcript_patience=0.0, guard_patience=0.0)
        Settings.from_environment = lambda: impatient  # type: ignore[method-assign]
        vars(database_module)["WRITER_TIMEOUT"] = 0.0
        vars(optimize_module)["PATIENCE"] = 0.0
        self.world = World(path, Watch())

    def call(self, name: str) -> None:
        """One call in another thread."""

        def run() -> None:
            with contextlib.suppress(HermesStoreError):
                CALLS[name](self.world)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if self._store.journal_mode == "wal":
            with self._store.reader() as reader:
                reader.sessions.count()

    def end(self) -> None:
        self._end.set()
        self._thread.join()
        self.world.close()
        self._store.close()


held: list[Held] = []


def hold(path: str) -> list[str]:
    """Begin a unit and keep it open; which calls there are."""
    held.append(Held(Path(path)))
    return list(CALLS)


def call(name: str) -> None:
    """Make a call while the unit is open."""
    held[0].call(name)


def end() -> None:
    """End the unit."""
    held.pop().end()


COMMANDS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (use_everything, hold, call, end)}


def main() -> None:
    say("ready")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        say(COMMANDS[name](**arguments))


if __name__ == "__main__":
    main()
