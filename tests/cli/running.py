"""The command as a function, in this process or in one of its own, and what every failure looks like."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from hermes_store.cli.main import main


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        """The one JSON document on stdout, which is one line."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    def data(self) -> "Ran":
        """Itself, after a look that the command went well."""
        assert (self.code, "error" in self.err) == (0, False), self.err
        return self

    def refused(self, code: int, *words: str) -> None:
        """One clear sentence on stderr, nothing on stdout, the exit code."""
        assert self.code == code, self
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err


class Run(Protocol):
    """The type of the fixture `run`."""

    def __call__(self, *arguments: str | Path, db: str | Path | None = ...) -> Ran: ...


def _argv(arguments: Sequence[str | Path], db: str | Path | None) -> list[str]:
    return [*(() if db is None else ("--db", str(db))), *map(str, arguments)]


def run_here(capsys: pytest.CaptureFixture[str], arguments: Sequence[str | Path], db: str | Path | None) -> Ran:
    capsys.readouterr()
    code = main(_argv(arguments, db))
    out, err = capsys.readouterr()
    return Ran(code, out, err)


def command_line(arguments: Sequence[str | Path], db: str | Path | None) -> list[str]:
    return [sys.executable, "-m", "hermes_store.cli", *_argv(arguments, db)]


def run_apart(*arguments: str | Path, db: str | Path | None, **environment: str) -> Ran:
    """The command in a process of its own; its output is read as UTF-8."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    done = subprocess.run(
        command_line(arguments, db), check=False, capture_output=True, env={**kept, **environment}, timeout=60
    )
    return Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))


def files_of(path: Path) -> dict[str, bytes]:
    """Name and bytes of everything in the folder of a file; only while nobody has it open.

    A reader of a file in WAL mode may leave an empty log and its index behind.
    """
    found = {each.name: each.read_bytes() for each in sorted(path.parent.iterdir()) if each.is_file()}
    assert found.pop(f"{path.name}-wal", b"") == b""
    found.pop(f"{path.name}-shm", None)
    found.pop(f"{path.name}.quarantine.lock", None)
    return found
