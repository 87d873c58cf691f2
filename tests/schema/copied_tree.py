"""A copy of the sources that a test may change, and commands that run on the copy."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_COPIED = ("hermes_store", "migrations", "tests", "alembic.ini", "pyproject.toml", "CONTRIBUTING.md")
_TOOLS = {"alembic": ("-m", "alembic"), "hermes-store": ("-m", "hermes_store.cli"), "python": ()}


class CopiedTree:
    """The tree in a folder; what an editable install does by its finder, a link does here."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        folder.mkdir()
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)
        (folder / "hermes_store" / "migrations").symlink_to(folder / "migrations", target_is_directory=True)

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """A tool of the environment, by its name, in the root of the copy."""
        tool, *rest = map(str, arguments)
        return subprocess.run(
            [sys.executable, *_TOOLS[tool], *rest],
            check=False,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root), "PYTHONUTF8": "1"},
            timeout=120,
        )

    def succeed(self, *arguments: str | Path) -> str:
        """What a command prints on stdout; the test fails if the command does."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
        return done.stdout

    def alembic(self, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`alembic -x db=PATH ...`."""
        return self.run("alembic", "-x", f"db={path}", *arguments)

    def command_line(self, line: str) -> list[str]:
        """A line of a document as arguments of `run`."""
        return shlex.split(line.strip().removeprefix(".venv/bin/"))

    def change(self, name: str, *hunks: str) -> None:
        """Apply changes written as lines that begin with a blank, `+` or `-`; each has to fit at one place."""
        file = self.root / name
        text = file.read_text(encoding="utf-8")
        for hunk in hunks:
            lines = [(line[:1], line[1:]) for line in hunk.splitlines()]
            assert {mark for mark, _ in lines} <= {" ", "+", "-", ""}
            old = "".join(f"{rest}\n" for mark, rest in lines if mark != "+")
            new = "".join(f"{rest}\n" for mark, rest in lines if mark != "-")
            assert text.count(old) == 1, f"{name} has no single place for:\n{old}"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
