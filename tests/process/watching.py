"""Noticing plain openings of files that the process has open already, through the audit events of the interpreter."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIDECARS = ("", "-wal", "-shm", "-journal")
EVENTS = {
    "open": (0,),
    "os.truncate": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "shutil.copyfile": (0, 1),
    "shutil.move": (0, 1),
}
"""Calls that open, replace or remove a file, and which of their arguments name one."""


class Watch:
    """Notes what the interpreter is asked to do, by whatever path, with files that this process has open already."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self.armed = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def add(self, path: Path) -> None:
        """Watch a file and its sidecars too."""
        real = os.path.realpath(path)
        self._files += [real + suffix for suffix in SIDECARS if real + suffix not in self._files]

    @contextlib.contextmanager
    def closed_eyes(self) -> Iterator[None]:
        """What happens inside is done by the test."""
        before, self.armed = self.armed, False
        try:
            yield
        finally:
            self.armed = before

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed or event not in EVENTS:
            return
        for place in EVENTS[event]:
            file = self._ours(arguments[place])
            if file is not None and _is_open(file):
                self.seen.append(f"{event} {arguments[place]!r} at {_callers()}")

    def _ours(self, target: Any) -> str | None:
        """The database that a path, or a descriptor, belongs to."""
        found = _identity(target)
        name = None if isinstance(target, int) else os.path.realpath(os.fsdecode(target))
        for number, file in enumerate(self._files):
            if file == name or (found is not None and found == _identity(file)):
                return self._files[number // len(SIDECARS) * len(SIDECARS)]
        return None


def _identity(target: Any) -> tuple[int, int] | None:
    try:
        status = os.fstat(target) if isinstance(target, int) else Path(os.fsdecode(target)).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _is_open(file: str) -> bool:
    """Whether this process has the file open; where that cannot be told, it has."""
    try:
        numbers = [int(each.name) for each in Path("/proc/self/fd").iterdir()]
    except OSError:
        return True
    wanted = _identity(file)
    return wanted is not None and any(_identity(number) == wanted for number in numbers)


def _callers() -> str:
    """The last few places in the package, innermost first."""
    frame = sys._getframe(1)
    found: list[str] = []
    while frame.f_back is not None and len(found) < 4:
        frame = frame.f_back
        if "hermes_store" in frame.f_code.co_filename:
            found.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
    return ", ".join(found)
