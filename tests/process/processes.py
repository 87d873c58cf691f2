"""Starting processes, talking to them, and judging what they left behind."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from hermes_store import connect
from tests.support.drivers import Engine

ROOT = Path(__file__).parents[2]
PATIENCE = 120  # seconds until a process that does not end is given up


class Child:
    """A process that runs `tests.process.child`, or another module that takes its orders in the same way."""

    def __init__(self, errors: IO[bytes], module: str = "tests.process.child", *, starter: Sequence[str] = ()) -> None:
        self._errors = errors
        self._process = subprocess.Popen(
            [*starter, sys.executable, "-W", "error", "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )

    def tell(self, command: str, **arguments: Any) -> None:
        """Give an order, without waiting for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, arguments]) + "\n")
        self._process.stdin.flush()

    def go_on(self) -> None:
        """Let a command go on that waits for a line."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(PATIENCE)
            self._errors.seek(0)
            raise AssertionError(f"the child has ended:\n{self._errors.read().decode()}")
        return json.loads(line)

    def ask(self, command: str, **arguments: Any) -> Any:
        """Give an order and wait for the answer."""
        self.tell(command, **arguments)
        return self.hear()

    def kill(self) -> list[Any]:
        """End it at once; returns what it had said by then and nobody had heard."""
        assert self._process.stdout is not None
        self._process.kill()
        rest = self._process.stdout.read()
        self._process.wait(PATIENCE)
        return [json.loads(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]

    def end(self) -> None:
        """Let it end by itself, or end it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE)


@contextmanager
def children(
    count: int, folder: Path, module: str = "tests.process.child", *, starter: Sequence[str] = ()
) -> Iterator[list[Child]]:
    """Processes that are ready for orders; `starter` is a command that starts another one."""
    with ExitStack() as stack:
        started = []
        for number in range(count):
            errors = stack.enter_context((folder / f"stderr-{module}-{number}.txt").open("w+b"))
            child = Child(errors, module, starter=starter)
            stack.callback(child.end)
            started.append(child)
        for child in started:
            assert child.hear() == "ready"
        yield started


def assert_sound(path: Path, engine: Engine) -> None:
    """SQLite finds nothing wrong with the file, and both indexes hold exactly the text of the rows."""
    with closing(connect(path, driver=engine.driver, timeout=10)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        for index in ("messages_fts", "messages_fts_trigram"):
            raw.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")


def rows(path: Path, engine: Engine, statement: str) -> list[Any]:
    """The rows of a statement."""
    with closing(connect(path, driver=engine.driver, read_only=True, timeout=10)) as raw:
        found: list[Any] = raw.execute(statement).fetchall()
        return found


def names(folder: Path) -> set[str]:
    """The files of a folder, without the texts of errors of the processes."""
    return {each.name for each in folder.iterdir() if not each.name.startswith("stderr-")}


def counters_are_right(path: Path, engine: Engine) -> bool:
    """Every session counts the messages that it has."""
    wrong = rows(
        path,
        engine,
        "SELECT id, message_count FROM sessions WHERE message_count IS NOT "
        "(SELECT count(*) FROM messages WHERE session_id = sessions.id)",
    )
    return wrong == []
