"""A change to the models is proposed as it is, and written as a revision that runs up and down (rule SCHEMA-9)."""

import ast
import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alembic.util import CommandError

from hermes_store import Store
from hermes_store.schema.autogenerate import differences
from hermes_store.schema.describe import golden_lines
from hermes_store.schema.versions import HEAD_REVISION
from tests.schema.generating import REVISION, ROOT, Chain, Lack, connected, fill, rewrite, schema_of, without_column
from tests.schema.inspecting import all_rows, change, check_file, opened, rows
from tests.support.drivers import Engine

ALLOWED_IMPORTS = {"alembic", "hermes_store.schema.operations"}
RUFF = (sys.executable, "-m", "ruff")
HEADINGS = ("Purpose:", "Stamp:", "Cost on a large file:", "Rule:", "Runs again:", "Downgrade:")


@dataclass(frozen=True)
class Case:
    """A change to the models, told by what a file of before lacks."""

    lack: Lack
    proposed: tuple[str, ...]
    up: tuple[str, ...]
    down: tuple[str, ...]
    online: bool = False


_USAGE_KEY = "REFERENCES sessions (id) ON DELETE CASCADE"

CASES = {
    "a column that may be NULL": Case(
        without_column("sessions", "last_read_at"),
        ("add column sessions.last_read_at REAL",),
        ('ensure_column(op, "sessions", "last_read_at", "REAL")',),
        ('drop_column(op, "sessions", "last_read_at")',),
    ),
    "a column with a default": Case(
        without_column("messages", "compacted"),
        ("add column messages.compacted INTEGER NOT NULL DEFAULT 0",),
        ('ensure_column(op, "messages", "compacted", "INTEGER NOT NULL DEFAULT 0")',),
        ('drop_column(op, "messages", "compacted")',),
    ),
    "a column with an index": Case(
        without_column("sessions", "handoff_state", "DROP INDEX idx_sessions_handoff_state"),
        ("add column sessions.handoff_state TEXT", "create index idx_sessions_handoff_state"),
        (
            'ensure_column(op, "sessions", "handoff_state", "TEXT")',
            "CREATE INDEX IF NOT EXISTS idx_sessions_handoff_state ON sessions (handoff_state, started_at)",
        ),
        (
            'run_ddl(op, "DROP INDEX IF EXISTS idx_sessions_handoff_state")',
            'drop_column(op, "sessions", "handoff_state")',
        ),
    ),
    "a partial index": Case(
        Lack(("DROP INDEX idx_sessions_title_unique",)),
        ("create index idx_sessions_title_unique",),
        (
            "CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique\n",
            "ON sessions (title)\n",
            "WHERE title IS NOT NULL\n",
        ),
        ('run_ddl(op, "DROP INDEX IF EXISTS idx_sessions_title_unique")',),
    ),
    "a long index that goes down": Case(
        Lack(("DROP INDEX idx_sessions_gateway_peer",)),
        ("create index idx_sessions_gateway_peer",),
        ("CREATE INDEX IF NOT EXISTS idx_sessions_gateway_peer", "started_at DESC)"),
        ('run_ddl(op, "DROP INDEX IF EXISTS idx_sessions_gateway_peer")',),
    ),
    "an index that changes": Case(
        Lack(("DROP INDEX idx_sessions_parent", "CREATE INDEX idx_sessions_parent ON sessions(cwd, started_at DESC)")),
        ("drop index idx_sessions_parent", "create index idx_sessions_parent"),
        ("DROP INDEX IF EXISTS idx_sessions_parent", "idx_sessions_parent ON sessions (parent_session_id)"),
        ("DROP INDEX IF EXISTS idx_sessions_parent", "idx_sessions_parent ON sessions(cwd, started_at DESC)"),
    ),
    "another condition of an index": Case(
        Lack(
            (
                "DROP INDEX idx_sessions_title_unique",
                "CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions (title) WHERE title <> 'x'",
            )
        ),
        ("drop index idx_sessions_title_unique", "create index idx_sessions_title_unique"),
        ("DROP INDEX IF EXISTS idx_sessions_title_unique", "WHERE title IS NOT NULL\n"),
        ("DROP INDEX IF EXISTS idx_sessions_title_unique", "WHERE title <> 'x'"),
    ),
    "an index that goes the other way": Case(
        Lack(("DROP INDEX idx_sessions_started", "CREATE INDEX idx_sessions_started ON sessions(started_at)")),
        ("drop index idx_sessions_started", "create index idx_sessions_started"),
        ("DROP INDEX IF EXISTS idx_sessions_started", "started_at DESC"),
        ("DROP INDEX IF EXISTS idx_sessions_started", "ON sessions(started_at)"),
    ),
    "another primary key": Case(
        Lack(rewrites=(("gateway_routing", "PRIMARY KEY (scope, session_key)", "PRIMARY KEY (session_key, scope)"),)),
        ("build gateway_routing anew: primary key (session_key, scope) -> (scope, session_key)",),
        ('"PRIMARY KEY (scope, session_key)",',),
        ('"PRIMARY KEY (session_key, scope)"',),
        online=True,
    ),
    "a table": Case(
        Lack(("DROP TABLE compression_locks",)),
        ("create table compression_locks", "create index idx_compression_locks_expires"),
        ("CREATE TABLE IF NOT EXISTS compression_locks (", "CREATE INDEX IF NOT EXISTS idx_compression_locks_expires"),
        (
            'run_ddl(op, "DROP INDEX IF EXISTS idx_compression_locks_expires")',
            'run_ddl(op, "DROP TABLE IF EXISTS compression_locks")',
        ),
    ),
    "another default": Case(
        Lack(
            rewrites=(
                ("sessions", "rewind_count INTEGER DEFAULT 0 NOT NULL", "rewind_count INTEGER NOT NULL DEFAULT 7"),
            )
        ),
        ("build sessions anew: rewind_count default 7 -> 0",),
        ('"rewind_count": "INTEGER DEFAULT 0 NOT NULL"', "in_place_of_null={}"),
        ('"rewind_count": "INTEGER DEFAULT 7 NOT NULL"',),
        online=True,
    ),
    "another type, in a table with ids that are never used again": Case(
        Lack(rewrites=(("messages", "token_count INTEGER", "token_count TEXT"),)),
        ("build messages anew: token_count type TEXT -> INTEGER",),
        ('"id": "INTEGER PRIMARY KEY AUTOINCREMENT"', '"token_count": "INTEGER"'),
        ('"id": "INTEGER PRIMARY KEY AUTOINCREMENT"', '"token_count": "TEXT"'),
        online=True,
    ),
    "no NULL any more": Case(
        Lack(rewrites=(("sessions", "pinned INTEGER DEFAULT 0 NOT NULL", "pinned INTEGER DEFAULT 0"),)),
        ("build sessions anew: pinned nullable yes -> no",),
        ('"pinned": "0",',),
        ('"pinned": "INTEGER DEFAULT 0"',),
        online=True,
    ),
    "another reference, and a column": Case(
        Lack(
            ("ALTER TABLE session_model_usage DROP COLUMN cost_source",),
            (("session_model_usage", _USAGE_KEY, "REFERENCES sessions (id)"),),
        ),
        (
            "add column session_model_usage.cost_source TEXT",
            "build session_model_usage anew: foreign key (session_id) to sessions on delete CASCADE",
        ),
        ("ensure_column(", f'"FOREIGN KEY(session_id) {_USAGE_KEY}",'),
        ('"FOREIGN KEY(session_id) REFERENCES sessions (id)",', "drop_column("),
        online=True,
    ),
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


@pytest.fixture
def before(case: Case, path: Path, any_engine: Engine) -> Path:
    """A file with rows, of the shape before the change."""
    fill(path)
    case.lack.apply(path, any_engine.driver)
    return path


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def _rows_but(path: Path, driver: str) -> dict[str, list[dict[str, Any]]]:
    with opened(path, driver) as raw:
        return {name: found for name, found in all_rows(raw).items() if name != "alembic_version"}


def _common(found: dict[str, list[dict[str, Any]]], like: dict[str, list[dict[str, Any]]]) -> Any:
    """The rows without columns and tables that the others do not have."""
    return {
        table: [{name: row[name] for name in row if name in like[table][0]} for row in held]
        for table, held in found.items()
        if like.get(table)
    }


def test_exactly_the_change_is_proposed_and_written(case: Case, before: Path, any_engine: Engine, chain: Chain) -> None:
    with connected(before, any_engine.driver) as connection:
        assert tuple(differences(connection, strict=True)) == case.proposed
    source = chain.generate(before, any_engine.driver, "sessions remember it").read_text(encoding="utf-8")
    _, up, down = re.split("def upgrade|def downgrade", source)
    for body, expected in ((up, case.up), (down, case.down)):
        found = [body.index(words) for words in expected]
        assert found == sorted(found)
    if not any("drop" in words for words in case.proposed):
        assert "drop" not in up.lower()
    _check_form(source)


def _check_form(source: str) -> None:
    """The file can be reviewed and committed as it is."""
    tree = ast.parse(source)
    described = ast.get_docstring(tree) or ""
    assert described.startswith("Sessions remember it.\n\n")
    assert [heading for heading in HEADINGS if heading not in described] == []
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == ALLOWED_IMPORTS
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    for check in (("check",), ("format", "--check")) if importlib.util.find_spec("ruff") else ():
        # The settings are those of the repository, which the file is going to stand in.
        done = subprocess.run(
            [*RUFF, *check, "--no-cache", "--stdin-filename", "migrations/versions/9999_x.py", "-"],
            check=False,
            input=source.encode(),
            capture_output=True,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()


def test_it_runs_up_and_down_twice_over_rows(case: Case, before: Path, any_engine: Engine, chain: Chain) -> None:
    driver = any_engine.driver
    old_schema, old_rows = schema_of(before, driver), _rows_but(before, driver)
    chain.generate(before, driver)
    for _ in range(2):
        chain.run(before, driver, REVISION)
        assert schema_of(before, driver) == golden_lines()
        assert _common(_rows_but(before, driver), old_rows) == _common(old_rows, old_rows)
        check_file(before, driver)
        chain.run(before, driver, HEAD_REVISION)
        assert schema_of(before, driver) == old_schema
        assert _rows_but(before, driver) == old_rows
        check_file(before, driver)


def test_it_does_nothing_on_a_file_that_opening_changed_first(path: Path, any_engine: Engine, tmp_path: Path) -> None:
    """One revision for every change that opening makes too."""
    driver = any_engine.driver
    fill(path)
    for case in CASES.values():
        if not case.online and "drop" not in case.proposed[0]:
            case.lack.apply(path, driver)
    chain = Chain(tmp_path)
    chain.generate(path, driver)
    Store.open(path).close()
    with opened(path, driver) as raw:
        opened_first = set(rows(raw, "SELECT name, sql FROM sqlite_master"))
    chain.run(path, driver, REVISION)
    with opened(path, driver) as raw:
        assert set(rows(raw, "SELECT name, sql FROM sqlite_master")) == opened_first


def test_sql_is_written_for_pure_ddl_and_refused_for_the_rest(
    case: Case, before: Path, any_engine: Engine, chain: Chain
) -> None:
    driver = any_engine.driver
    old_schema = schema_of(before, driver)
    chain.generate(before, driver)
    up, down = f"{HEAD_REVISION}:{REVISION}", f"{REVISION}:{HEAD_REVISION}"
    if case.online:
        for direction in (up, down):
            with pytest.raises(CommandError, match=f"OnlineMigration: revision {REVISION}"):
                chain.sql(direction)
        return
    for direction, expected in ((up, golden_lines()), (down, old_schema)):
        script = chain.sql(direction)
        assert script.startswith("BEGIN;")
        with opened(before, driver) as raw:
            raw.executescript(script)
            assert not raw.in_transaction
            assert rows(raw, "SELECT version_num FROM alembic_version") == [(direction.split(":")[1],)]
        assert schema_of(before, driver) == expected


def test_ids_of_rows_that_are_gone_are_not_given_out_again(path: Path, any_engine: Engine, chain: Chain) -> None:
    driver = any_engine.driver
    fill(path)
    CASES["another type, in a table with ids that are never used again"].lack.apply(path, driver)
    with opened(path, driver) as raw:
        (highest,) = rows(raw, "SELECT seq FROM sqlite_sequence WHERE name = 'messages'")[0]
        assert rows(raw, "SELECT max(id) < ? FROM messages", (highest,)) == [(1,)]
    chain.generate(path, driver)
    for target in (REVISION, HEAD_REVISION):
        chain.run(path, driver, target)
        with opened(path, driver) as raw:
            assert rows(raw, "SELECT name, seq FROM sqlite_sequence") == [("messages", highest)]


def test_what_is_unknown_is_never_proposed_for_removal_and_survives(
    path: Path, any_engine: Engine, chain: Chain
) -> None:
    driver = any_engine.driver
    fill(path)
    change(
        path,
        driver,
        "ALTER TABLE sessions ADD COLUMN theirs TEXT NOT NULL DEFAULT 'a:b'",
        "CREATE INDEX idx_theirs ON sessions (theirs)",
        "CREATE TABLE others (id INTEGER PRIMARY KEY, session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE)",
        "INSERT INTO others (session_id) VALUES ('one')",
    )
    CASES["another default"].lack.apply(path, driver)
    rewrite(path, driver, "sessions", "last_read_at REAL", "last_read_at REAL, moment REAL DEFAULT (julianday('now'))")
    unknown = {line for line in schema_of(path, driver) if line not in golden_lines() and "rewind_count" not in line}
    chain.generate(path, driver)
    for target in (REVISION, HEAD_REVISION):
        chain.run(path, driver, target)
        assert unknown <= set(schema_of(path, driver))
        with opened(path, driver) as raw:
            assert rows(raw, "SELECT session_id FROM others") == [("one",)]
            assert rows(raw, "SELECT DISTINCT theirs FROM sessions") == [("a:b",)]


def test_a_column_that_no_file_with_rows_can_get_is_refused(path: Path, any_engine: Engine, chain: Chain) -> None:
    fill(path)
    change(path, any_engine.driver, "ALTER TABLE async_delegations DROP COLUMN state")
    with pytest.raises(CommandError, match=r"async_delegations\.state is NOT NULL and has no server default"):
        chain.generate(path, any_engine.driver)
