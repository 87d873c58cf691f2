"""The chain of revisions: one line, known names, nothing of the package but the frozen operations."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.operations.ops import UpgradeOps
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, text
from sqlalchemy.pool import StaticPool

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.schema import environment, versions
from hermes_store.schema.operations import ensure_column
from tests.schema.inspecting import Column as FoundColumn
from tests.schema.inspecting import describe, scratch
from tests.support.drivers import Engine, installed

ROOT = Path(__file__).parents[2]
VERSIONS = ROOT / "migrations" / "versions"
FILES = sorted(VERSIONS.glob("[!_]*.py"))
ALLOWED_IMPORTS = {"alembic", "hermes_store.schema.operations"}
STANDARD = {"json", "logging", "pathlib", "typing"}


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


def test_the_numbers_rise_and_end_at_the_stamp() -> None:
    numbers = [int(each) for each in versions.REVISIONS]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == versions.STAMP


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


# -- what autogenerate writes -----------------------------------------------------------------------------------


def _directive(metadata: MetaData, raw: Any, driver: str) -> UpgradeOps:
    """What autogenerate proposes for a database, after the rewriter of the environment."""
    engine = create_engine("sqlite://", module=load_driver(driver).module, creator=lambda: raw, poolclass=StaticPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"target_metadata": metadata})
        proposed = produce_migrations(context, metadata)
        environment._additive(context, ("0023",), [proposed])
    upgrades = proposed.upgrade_ops
    assert upgrades is not None
    return upgrades


@pytest.mark.parametrize("driver", installed())
def test_a_new_column_is_proposed_so_that_it_may_be_there_already(driver: str) -> None:
    metadata = MetaData()
    Table(
        "notes",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("weight", Integer, nullable=False, server_default=text("0")),
        Column("kind", Text),
    )
    with scratch(driver) as raw:
        raw.execute("CREATE TABLE notes (id INTEGER NOT NULL PRIMARY KEY)")
        imports: set[str] = set()
        written = render_python_code(_directive(metadata, raw, driver), imports=sorted(imports))
    assert "ensure_column(op, 'notes', 'weight', 'INTEGER NOT NULL DEFAULT 0')" in written
    assert "ensure_column(op, 'notes', 'kind', 'TEXT')" in written
    assert "add_column" not in written


def test_the_command_writes_a_revision_that_runs(
    store: Store, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`revision --autogenerate`, into a folder of its own, for a column that only the models have."""
    store.write(lambda unit: unit.connection.sql("ALTER TABLE sessions DROP COLUMN last_read_at"))
    folder = tmp_path / "versions"
    folder.mkdir()
    for file in FILES:
        (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    config = Config(str(ROOT / "alembic.ini"))
    config.set_main_option("version_locations", str(folder))
    with store.reader() as reader:
        config.attributes["hermes_store_connection"] = reader.connection
        made = command.revision(config, message="remember reading", autogenerate=True, rev_id="0099")
    assert made is not None
    assert not isinstance(made, list)
    assert Path(made.path).name == "0099_remember_reading.py"
    source = Path(made.path).read_text(encoding="utf-8")
    assert "ensure_column(op, 'sessions', 'last_read_at', 'REAL')" in source
    assert set(_imports(ast.parse(source))) == ALLOWED_IMPORTS
    assert "drop" not in source.split("def downgrade")[0]
    compile(source, made.path, "exec")


@pytest.mark.parametrize("driver", installed())
def test_ensure_column_adds_once(driver: str) -> None:
    with scratch(driver) as raw:
        raw.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, Kind TEXT)")
        engine = create_engine(
            "sqlite://", module=load_driver(driver).module, creator=lambda: raw, poolclass=StaticPool
        )
        with engine.connect() as connection:
            operations = Operations(MigrationContext.configure(connection))
            for _ in range(2):
                ensure_column(operations, "notes", "weight", "INTEGER NOT NULL DEFAULT 7")
                ensure_column(operations, "notes", "kind", "TEXT")
        found = describe(raw, "notes").columns
    assert found[1:] == (FoundColumn("Kind", "TEXT"), FoundColumn("weight", "INTEGER", not_null=True, default="7"))


@pytest.mark.parametrize(("table", "column"), [("no tes", "a"), ("notes", 'a" INTEGER; --'), ("", "a"), ("notes", "")])
def test_ensure_column_takes_names_only(table: str, column: str) -> None:
    with scratch("sqlite3") as raw:
        engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
        with engine.connect() as connection:
            operations = Operations(MigrationContext.configure(connection))
            with pytest.raises(ValueError, match="no name"):
                ensure_column(operations, table, column, "TEXT")
