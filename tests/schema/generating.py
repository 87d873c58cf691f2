"""Generating a revision for a file that lacks what the models have, and running it, within this process."""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from alembic import command
from alembic.config import Config

import hermes_store
from hermes_store import SessionDB
from hermes_store.database import load_driver
from hermes_store.database.connection import Connection
from hermes_store.schema.describe import describe_schema
from tests.schema.inspecting import change, opened, rows

ROOT = Path(__file__).parents[2]
REVISION = "9999"


@contextmanager
def connected(path: Path, driver: str) -> Iterator[Connection]:
    """A connection of the library, as an upgrade has it: foreign keys off."""
    connection = Connection(hermes_store.connect(path, driver=driver), load_driver(driver))
    try:
        connection.sql("PRAGMA foreign_keys=OFF")
        yield connection
    finally:
        connection.close()


def schema_of(path: Path, driver: str) -> list[str]:
    """Every line of the schema of a closed file."""
    with connected(path, driver) as connection:
        return describe_schema(connection)


def rewrite(path: Path, driver: str, table: str, old: str, new: str) -> None:
    """Give a table another definition, under its rows, as no statement of SQLite could."""
    with opened(path, driver) as raw:
        (text,) = rows(raw, "SELECT sql FROM sqlite_master WHERE name = ?", (table,))[0]
        assert text.count(old) == 1
        (cookie,) = rows(raw, "PRAGMA schema_version")[0]
        raw.execute("PRAGMA writable_schema=ON")
        raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (text.replace(old, new), table))
        raw.execute(f"PRAGMA schema_version={cookie + 1}")


def fill(path: Path) -> None:
    """A new store with rows in several tables, and an id that was given out and is gone."""
    with SessionDB(path) as db:
        for name in ("one", "two"):
            db.create_session(name, "cli", model="example/large")
            db.append_message(name, "user", "please check the docker build")
            db.append_message(name, "assistant", "部署的服务正常")
            db.update_token_counts(name, input_tokens=5, output_tokens=7, model="example/large")
        db.create_session("three", "cli", parent_session_id="one")
        db.append_message("three", "user", "gone")
        db.delete_session("three")


class Chain:
    """The revisions of the package in a folder of their own, which another one can be added to."""

    def __init__(self, folder: Path) -> None:
        self.versions = folder / "versions"
        shutil.copytree(ROOT / "migrations" / "versions", self.versions, ignore=shutil.ignore_patterns("__pycache__"))
        self._before = set(self.versions.iterdir())
        # The environment asks which command it serves.
        asked = argparse.Namespace(cmd=(command.revision, [], []), x=None)
        self.config = Config(str(ROOT / "alembic.ini"), cmd_opts=asked)
        self.config.set_main_option("version_locations", str(self.versions))

    def generate(self, path: Path, driver: str, message: str = "the change") -> Path:
        """`alembic revision --autogenerate`; returns the file that it wrote."""
        with connected(path, driver) as connection:
            self.config.attributes["hermes_store_connection"] = connection
            command.revision(self.config, message=message, autogenerate=True, rev_id=REVISION)
        (made,) = {each for each in self.versions.glob("*.py") if each not in self._before}
        return made

    def run(self, path: Path, driver: str, target: str) -> None:
        """Upgrade or downgrade in one transaction."""
        with connected(path, driver) as connection:
            self.config.attributes["hermes_store_connection"] = connection
            connection.sql("BEGIN IMMEDIATE")
            (command.upgrade if target == REVISION else command.downgrade)(self.config, target)
            connection.sql("COMMIT")

    def sql(self, direction: str) -> str:
        """What `--sql` prints for the generated revision; raises what it raises."""
        written = StringIO()
        config = Config(str(ROOT / "alembic.ini"), output_buffer=written)
        config.set_main_option("version_locations", str(self.versions))
        (command.upgrade if direction.endswith(REVISION) else command.downgrade)(config, direction, sql=True)
        return written.getvalue()


def without_column(table: str, column: str, *before: str) -> "Lack":
    """A file that was made before a column was declared."""
    return Lack((*before, f"ALTER TABLE {table} DROP COLUMN {column}"))


class Lack:
    """How a store gets the shape of before a change to the models: statements, and definitions to rewrite."""

    def __init__(self, statements: tuple[str, ...] = (), rewrites: tuple[tuple[str, str, str], ...] = ()) -> None:
        self.statements = statements
        self.rewrites = rewrites

    def apply(self, path: Path, driver: str) -> None:
        change(path, driver, *self.statements)
        for table, old, new in self.rewrites:
            rewrite(path, driver, table, old, new)
