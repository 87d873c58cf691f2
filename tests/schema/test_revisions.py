"""The chain of revisions: one line, known names, nothing of the package but the frozen operations."""

import ast
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from hermes_store.database import load_driver
from hermes_store.schema import environment, versions
from hermes_store.schema.operations import drop_column, ensure_column, reshape_table, run_ddl
from tests.schema.inspecting import Column as FoundColumn
from tests.schema.inspecting import describe, scratch
from tests.support.drivers import installed

ROOT = Path(__file__).parents[2]
VERSIONS = ROOT / "migrations" / "versions"
FILES = sorted(VERSIONS.glob("[!_]*.py"))
ALLOWED_IMPORTS = {"alembic", "hermes_store.schema.operations"}
STANDARD = {"json", "logging", "math", "pathlib", "typing"}


@pytest.fixture(scope="module")
def script() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", environment.SCRIPT_LOCATION)
    return ScriptDirectory.from_config(config)


def test_there_is_one_head_and_one_base(script: ScriptDirectory) -> None:
    assert script.get_heads() == [versions.HEAD_REVISION]
    assert script.get_bases() == [versions.ROOT_REVISION]


def test_the_chain_is_one_line_and_the_one_that_the_package_knows(script: ScriptDirectory) -> None:
    chain = list(script.walk_revisions())[::-1]
    assert tuple(each.revision for each in chain) == versions.REVISIONS
    assert [each.down_revision for each in chain] == [None, *versions.REVISIONS[:-1]]
    assert not any(each.branch_labels or each.dependencies for each in chain)


def test_the_numbers_rise_and_those_of_hermes_agent_end_at_the_stamp() -> None:
    numbers = [int(each) for each in versions.REVISIONS]
    assert numbers == sorted(set(numbers))
    assert max(each for each in numbers if each < versions.FIRST_OWN_REVISION) == versions.STAMP


@pytest.mark.parametrize(
    ("stamp", "revision"),
    [
        (0, "0001"),
        (1, "0001"),
        (15, "0001"),
        (16, "0016"),
        (17, "0016"),
        (19, "0018"),
        (20, "0020"),
        (21, "0021"),
        (22, "0022"),
        (23, "0023"),
        (24, "0023"),
        (99, "0023"),
    ],
)
def test_a_file_is_adopted_at_the_last_revision_not_above_its_stamp(stamp: int, revision: str) -> None:
    assert versions.revision_of_stamp(stamp) == revision


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_is_named_after_its_revision(script: ScriptDirectory, file: Path) -> None:
    assert re.fullmatch(r"\d{4}_[a-z0-9]+(_[a-z0-9]+)*\.py", file.name)
    revision = script.get_revision(file.name[:4])
    assert revision is not None
    assert Path(revision.path).name == file.name


def test_every_revision_has_a_file() -> None:
    assert tuple(file.name[:4] for file in FILES) == versions.REVISIONS


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_revision_imports_the_frozen_operations_alone(file: Path) -> None:
    assert set(_imports(ast.parse(file.read_text(encoding="utf-8")))) <= ALLOWED_IMPORTS | STANDARD


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_revision_says_what_an_operator_needs_to_know(file: Path) -> None:
    described = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    for heading in ("Purpose:", "Stamp:", "Cost on a large file:", "Runs again:", "Downgrade:"):
        assert heading in described


def test_no_revision_keeps_the_words_of_the_template() -> None:
    template = (ROOT / "migrations" / "script.py.mako").read_text(encoding="utf-8")
    phrases = re.findall(r"^(?:Purpose|Cost on a large file|Rule|Runs again|Downgrade): (.+)$", template, re.MULTILINE)
    assert len(phrases) == 5
    kept = [f"{file.name}: {phrase}" for file in FILES for phrase in phrases if phrase in file.read_text("utf-8")]
    assert kept == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_notes_name_every_revision(file: Path) -> None:
    notes = (ROOT / "migrations" / "NOTES.md").read_text(encoding="utf-8")
    assert f"## {file.stem[:4]} {file.stem[5:]}\n" in notes


def test_the_notes_begin_with_the_latest() -> None:
    notes = (ROOT / "migrations" / "NOTES.md").read_text(encoding="utf-8")
    named = re.findall(r"^## (\d{4}) ", notes, flags=re.MULTILINE)
    assert named == list(versions.REVISIONS[::-1])


def test_the_installed_package_holds_the_revisions_of_the_repository(script: ScriptDirectory) -> None:
    assert Path(script.dir).resolve() == (ROOT / "migrations").resolve()


# -- a revision by hand ------------------------------------------------------------------------------------------


def test_a_new_revision_by_hand_refuses_until_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "versions"
    shutil.copytree(VERSIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    config = Config(str(ROOT / "alembic.ini"))
    config.set_main_option("version_locations", str(folder))
    command.revision(config, message="move the moods.", rev_id="0099")
    source = (folder / "0099_move_the_moods.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert (ast.get_docstring(tree) or "").startswith("Move the moods.\n\nPurpose: ")
    assert f'down_revision = "{versions.HEAD_REVISION}"\n' in source
    assert set(_imports(tree)) == ALLOWED_IMPORTS
    assert "    online_only(op, revision)\n" in source
    assert "    irreversible(revision, " in source.split("def downgrade")[1]


# -- the frozen operations ---------------------------------------------------------------------------------------


@contextmanager
def _operations(driver: str, *, as_sql: StringIO | None = None) -> Iterator[tuple[Operations, Any]]:
    """Operations on an empty database in memory, and the raw connection."""
    with scratch(driver) as raw:
        engine = create_engine(
            "sqlite://", module=load_driver(driver).module, creator=lambda: raw, poolclass=StaticPool
        )
        with engine.connect() as connection:
            opts = {} if as_sql is None else {"as_sql": True, "output_buffer": as_sql}
            yield Operations(MigrationContext.configure(connection, opts=opts)), raw


@pytest.mark.parametrize("driver", installed())
def test_a_column_is_added_once_and_dropped_once(driver: str) -> None:
    with _operations(driver) as (operations, raw):
        raw.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, Kind TEXT)")
        for _ in range(2):
            ensure_column(operations, "notes", "weight", "INTEGER NOT NULL DEFAULT 7")
            ensure_column(operations, "notes", "kind", "TEXT")
        assert describe(raw, "notes").columns[1:] == (
            FoundColumn("Kind", "TEXT"),
            FoundColumn("weight", "INTEGER", not_null=True, default="7"),
        )
        for _ in range(2):
            drop_column(operations, "notes", "WEIGHT")
        assert describe(raw, "notes").columns[1:] == (FoundColumn("Kind", "TEXT"),)


@pytest.mark.parametrize(("table", "column"), [("no tes", "a"), ("notes", 'a" INTEGER; --'), ("", "a"), ("notes", "")])
def test_columns_are_named_by_names_only(table: str, column: str) -> None:
    with _operations(installed()[0]) as (operations, _):
        with pytest.raises(ValueError, match="no name"):
            ensure_column(operations, table, column, "TEXT")
        with pytest.raises(ValueError, match="no name"):
            drop_column(operations, table, column)


@pytest.mark.parametrize("driver", installed())
def test_ddl_runs_again_and_takes_its_text_literally(driver: str) -> None:
    with _operations(driver) as (operations, raw):
        for _ in range(2):
            run_ddl(operations, "CREATE TABLE IF NOT EXISTS notes (id INTEGER, kind TEXT DEFAULT 'a:b %(c)s ?')")
            run_ddl(operations, "  create unique index if not exists idx_kind\n    ON notes (kind)\n")
        assert describe(raw, "notes").columns[1] == FoundColumn("kind", "TEXT", default="'a:b %(c)s ?'")
        assert dict(describe(raw, "notes").indexes)["idx_kind"].unique
        for _ in range(2):
            run_ddl(operations, "DROP INDEX IF EXISTS idx_kind")
            run_ddl(operations, "DROP TABLE IF EXISTS notes")
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "CREATE TABLE notes (id INTEGER)",
        "DROP TABLE notes",
        "DELETE FROM notes",
        "CREATE TRIGGER IF NOT EXISTS t AFTER INSERT ON notes BEGIN SELECT 1; END",
        "ALTER TABLE notes ADD COLUMN a TEXT",
    ],
)
def test_ddl_that_might_not_run_again_is_refused(statement: str) -> None:
    with _operations(installed()[0]) as (operations, raw):
        raw.execute("CREATE TABLE notes (id INTEGER)")
        before = raw.execute("SELECT * FROM sqlite_master").fetchall()
        with pytest.raises(ValueError, match="may run again"):
            run_ddl(operations, statement)
        assert raw.execute("SELECT * FROM sqlite_master").fetchall() == before


def test_written_as_sql_every_text_stays_as_it_is() -> None:
    written = StringIO()
    with _operations(installed()[0], as_sql=written) as (operations, raw):
        ensure_column(operations, "notes", "kind", "TEXT DEFAULT 'a:b %(c)s'")
        run_ddl(operations, "CREATE INDEX IF NOT EXISTS i ON notes (kind) WHERE kind <> ':d'")
        drop_column(operations, "notes", "kind")
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == []
    assert [line for line in written.getvalue().splitlines() if line] == [
        "ALTER TABLE notes ADD COLUMN \"kind\" TEXT DEFAULT 'a:b %(c)s';",
        "CREATE INDEX IF NOT EXISTS i ON notes (kind) WHERE kind <> ':d';",
        'ALTER TABLE notes DROP COLUMN "kind";',
    ]


_SHAPE: dict[str, Any] = {
    "columns": {"id": "INTEGER", "Kind": "TEXT DEFAULT 'x' NOT NULL", "owner": "TEXT"},
    "constraints": ["PRIMARY KEY (id)", "FOREIGN KEY(owner) REFERENCES owners (id) ON DELETE CASCADE"],
    "in_place_of_null": {"Kind": "'none'"},
}


@pytest.mark.parametrize("driver", installed())
@pytest.mark.parametrize("options", ["", " WITHOUT ROWID"])
def test_a_table_is_built_anew_with_all_that_belongs_to_it(driver: str, options: str) -> None:
    with _operations(driver) as (operations, raw):
        raw.execute("CREATE TABLE owners (id TEXT PRIMARY KEY)")
        raw.execute(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY NOT NULL, kind INTEGER, owner TEXT REFERENCES owners (id), "
            f"theirs TEXT DEFAULT (lower('A')), UNIQUE (id, kind)){options}"
        )
        raw.execute("CREATE INDEX idx_notes ON notes (kind DESC) WHERE kind IS NOT NULL")
        raw.execute("CREATE TRIGGER t AFTER INSERT ON notes BEGIN UPDATE owners SET id = ':x' WHERE id = '1'; END")
        raw.execute("CREATE VIEW named AS SELECT kind FROM notes")
        raw.execute("INSERT INTO notes (id, kind, owner, theirs) VALUES (7, NULL, 'gone', 'kept'), (3, 5, NULL, 'too')")
        kept = "SELECT name, sql FROM sqlite_master WHERE type IN ('trigger', 'index', 'view') AND sql <> '' ORDER BY 1"
        before = raw.execute(kept).fetchall()
        reshape_table(operations, "notes", **_SHAPE)
        assert raw.execute(kept).fetchall() == before
        rows = raw.execute("SELECT id, kind, owner, theirs FROM notes ORDER BY id").fetchall()
        assert rows == [(3, "5", None, "too"), (7, "none", "gone", "kept")]
        found = describe(raw, "notes")
        assert found.columns[1] == FoundColumn("Kind", "TEXT", not_null=True, default="'x'")
        assert {(key.column, key.on_delete) for key in found.foreign_keys} == {("owner", "CASCADE")}
        assert [column.name for column in found.columns] == ["id", "Kind", "owner", "theirs"]
        (shape,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'notes'").fetchone()
        reshape_table(operations, "notes", **_SHAPE)
        assert raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'notes'").fetchone() == (shape,)
