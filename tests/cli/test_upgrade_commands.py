"""`db upgrade`, `db check`, `db current` and `db history`: for people who have the package and no tree (rule CLI-1)."""

import os
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import load_driver
from hermes_store.schema.report import OpenReport
from hermes_store.schema.versions import HEAD_REVISION, REVISIONS, STAMP
from tests.cli.running import Ran, Run, files_of, run_apart
from tests.schema.inspecting import change, opened, rows
from tests.snapshots.build import build_version
from tests.support.drivers import Engine, installed

NOBODY = "7777"


@pytest.fixture
def old(path: Path, any_engine: Engine) -> Path:
    """A file of version 16."""
    build_version(
        path, load_driver(any_engine.driver).module, 16, journal_mode=any_engine.journal_mode, sessions=3, turns=2
    )
    return path


@pytest.fixture
def current(path: Path, any_engine: Engine) -> Path:
    Store.open(path).close()
    return path


@pytest.fixture
def at_22(old: Path, any_engine: Engine) -> Path:
    """A file under revisions that has one to go."""
    Store.open(old).close()
    change(old, any_engine.driver, "UPDATE alembic_version SET version_num = '0022'")
    return old


def _table(ran: Ran) -> dict[str, str]:
    """What a table of two columns says."""
    return {name: value.strip() for name, _, value in (line.partition("  ") for line in ran.lines[1:])}


# -- db upgrade ------------------------------------------------------------------------------------------------------


def test_an_upgrade_reports_what_it_did_as_a_table_and_its_steps_beside(old: Path, run: Run) -> None:
    ran = run("db", "upgrade").data()
    assert ran.lines[0].split() == ["what", "value"]
    table = _table(ran)
    assert table["schema version"] == "16 before"
    assert table["revision"] == HEAD_REVISION
    assert table["revisions run"].startswith("0018, 0020, ")
    assert "sessions.pinned" in table["columns added"]
    assert "copy before" not in table
    steps = ran.err.splitlines()
    assert steps[0] == "upgrading: tables and columns"
    assert len(steps) > 3
    assert all(line.startswith("upgrading: ") for line in steps)
    with Store.open(old) as store:
        assert not store.report.changed


@pytest.mark.parametrize("arguments", [("--json", "db", "upgrade"), ("db", "upgrade", "--json")], ids=["global", "own"])
def test_as_json_it_is_the_report_and_nothing_else(old: Path, run: Run, arguments: tuple[str, ...]) -> None:
    found = run(*arguments).data().json
    assert (found["changed"], found["adopted"], found["stamp"], found["revision"]) == (True, True, 16, HEAD_REVISION)
    assert set(found) == {*OpenReport.__dataclass_fields__, "changed"}
    again = run(*arguments).data()
    assert again.json["changed"] is False
    assert again.err == ""


def test_a_current_file_is_said_to_be_current(current: Path, run: Run) -> None:
    ran = run("db", "upgrade").data()
    assert (ran.out, ran.err) == ("", f"{current} is current (revision {HEAD_REVISION})\n")


def test_what_one_lost_comes_back(current: Path, any_engine: Engine, run: Run) -> None:
    change(current, any_engine.driver, "DROP TRIGGER messages_fts_delete", "DROP INDEX idx_sessions_source")
    assert run("db", "check").code == 1
    table = _table(run("db", "upgrade").data())
    assert table["indexes created"] == "idx_sessions_source"
    assert run("db", "check").code == 0


@pytest.mark.parametrize("named", [False, True], ids=["beside", "named"])
def test_a_copy_is_made_first(old: Path, any_engine: Engine, run: Run, tmp_path: Path, named: bool) -> None:
    target = tmp_path / "copies" / "before.db"
    target.parent.mkdir()
    option = ("--backup-to", target) if named else ("--backup",)
    said = _table(run("db", "upgrade", *option).data())["copy before"]
    copy = Path(said)
    assert copy == target if named else copy.parent == old.parent
    with opened(copy, any_engine.driver, read_only=True) as raw:
        assert rows(raw, "SELECT version FROM schema_version") == [(16,)]
        assert rows(raw, "SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'") == [(0,)]


def test_a_copy_that_cannot_be_made_changes_nothing(old: Path, run: Run, tmp_path: Path) -> None:
    taken = tmp_path / "copies.db"
    taken.write_text("mine", encoding="utf-8")
    before = files_of(old)
    ran = run("db", "upgrade", "--backup-to", taken)
    assert (ran.code, ran.out) == (1, "")
    assert "error: " in ran.err.splitlines()[-1]
    assert files_of(old) == before


def test_a_current_file_needs_no_copy(current: Path, run: Run) -> None:
    before = files_of(current)
    run("db", "upgrade", "--backup").data()
    assert files_of(current) == before


# -- db upgrade: what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("upgrade",), ("upgrade", "--sql"), ("check",), ("current",)], ids=" ".join)
def test_a_missing_file_is_an_error_and_none_is_made(path: Path, run: Run, command: tuple[str, ...]) -> None:
    run("db", *command).refused(1, str(path), "no session store")
    assert not path.exists()


@pytest.mark.parametrize("command", [("upgrade",), ("upgrade", "--sql"), ("check",), ("current",)], ids=" ".join)
def test_a_file_of_another_program_is_refused_and_unchanged(
    path: Path, any_engine: Engine, run: Run, command: tuple[str, ...]
) -> None:
    change(path, any_engine.driver, "CREATE TABLE customers (id INTEGER)")
    before = files_of(path)
    run("db", *command).refused(1, "another program")
    assert files_of(path) == before


@pytest.mark.parametrize("command", [("upgrade",), ("upgrade", "--sql"), ("check",), ("current",)], ids=" ".join)
def test_what_is_no_database_is_refused_and_unchanged(path: Path, run: Run, command: tuple[str, ...]) -> None:
    path.write_bytes(b"no database\n" * 20)
    run("db", *command).refused(1, "not a database")
    assert path.read_bytes() == b"no database\n" * 20


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_cannot_be_written_needs_an_action(old: Path, run: Run) -> None:
    old.chmod(0o400)
    run("db", "upgrade").refused(3, str(old), "chmod")
    run("db", "current").data()


@pytest.mark.parametrize("command", [("upgrade",), ("upgrade", "--sql")], ids=" ".join)
def test_a_file_of_a_newer_release_needs_an_action_and_can_be_read(
    current: Path, any_engine: Engine, run: Run, command: tuple[str, ...]
) -> None:
    with SessionDB(current) as db:
        db.create_session("one", "cli")
    change(current, any_engine.driver, f"UPDATE alembic_version SET version_num = '{NOBODY}'")
    before = files_of(current)
    run("db", *command).refused(3, f"revision {NOBODY}", "update hermes-store")
    assert run("db", "current").data().lines == [f"{NOBODY}, schema version {STAMP}"]
    assert "one" in run("sessions", "list").data().out
    assert files_of(current) == before


def test_a_stamp_that_is_no_number_needs_an_action(old: Path, any_engine: Engine, run: Run) -> None:
    change(old, any_engine.driver, "UPDATE schema_version SET version = 'abc'")
    run("db", "upgrade").refused(3, "'abc'", "UPDATE schema_version")
    run("db", "upgrade", "--sql").refused(3, "'abc'", "UPDATE schema_version")


@pytest.mark.parametrize("option", [("--backup",), ("--backup-to", "x.db")], ids=lambda each: each[0])
def test_sql_and_a_copy_exclude_each_other(at_22: Path, run: Run, option: tuple[str, ...]) -> None:
    ran = run("db", "upgrade", "--sql", *option)
    assert (ran.code, ran.out) == (2, "")
    assert "nothing to back up" in ran.err


# -- db upgrade --sql ------------------------------------------------------------------------------------------------


def test_sql_of_a_current_file_is_none(current: Path, run: Run) -> None:
    ran = run("db", "upgrade", "--sql").data()
    assert (ran.out, "nothing to run" in ran.err) == ("", True)
    assert run("--json", "db", "upgrade", "--sql").data().json == {
        "revision": HEAD_REVISION,
        "head": HEAD_REVISION,
        "sql": "",
    }


def test_sql_is_refused_by_the_name_of_the_revision_that_looks_at_data(at_22: Path, run: Run) -> None:
    before = files_of(at_22)
    run("db", "upgrade", "--sql").refused(3, "revision 0023", "db upgrade")
    assert files_of(at_22) == before


@pytest.mark.parametrize("version", [1, 16, 23])
def test_sql_is_refused_for_a_file_that_has_to_be_adopted(
    path: Path, any_engine: Engine, run: Run, version: int
) -> None:
    build_version(path, load_driver(any_engine.driver).module, version, sessions=1, turns=1)
    run("db", "upgrade", "--sql").refused(3, "not under revisions yet", "db upgrade")


# -- db check --------------------------------------------------------------------------------------------------------


def _check(run: Run) -> tuple[int, Any]:
    ran = run("--json", "db", "check")
    assert ran.err == ""
    return ran.code, ran.json


@pytest.mark.parametrize("version", [None, 1, 10, 20, 22, 23], ids=str)
def test_a_current_file_is_clean(path: Path, engine: Engine, run: Run, version: int | None) -> None:
    if version is not None:
        module = load_driver(engine.driver).module
        build_version(path, module, version, journal_mode=engine.journal_mode, sessions=2, turns=1)
    Store.open(path).close()
    ran = run("db", "check")
    assert (ran.code, ran.out, ran.err.splitlines()[-1]) == (0, "", "the schema is current")
    code, found = _check(run)
    assert (code, found["proposed"], found["missing"]) == (0, [], [])


@pytest.mark.parametrize("version", [1, 7, 16, 22])
def test_an_old_file_differs_and_stays_as_it_is(path: Path, any_engine: Engine, run: Run, version: int) -> None:
    build_version(path, load_driver(any_engine.driver).module, version, sessions=2, turns=1)
    before = files_of(path)
    ran = run("db", "check")
    assert ran.code == 1
    assert "would change: add column sessions.pinned INTEGER NOT NULL DEFAULT 0" in ran.lines
    assert "missing: sessions.pinned: INTEGER, not null, default 0" in ran.lines
    assert "hermes-store db upgrade" in ran.err
    assert files_of(path) == before


LOSSES = {
    "a trigger": (("DROP TRIGGER messages_fts_insert",), [], ["messages_fts_insert"]),
    "a trigger that does nothing": (
        (
            "DROP TRIGGER messages_fts_delete",
            "CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages BEGIN SELECT 1; END",
        ),
        [],
        ["messages_fts_delete"],
    ),
    "an index": (
        ("DROP INDEX idx_sessions_source",),
        ["create index idx_sessions_source"],
        ["idx_sessions_source"],
    ),
    "a condition": (
        ("DROP INDEX idx_messages_active_null", "CREATE INDEX idx_messages_active_null ON messages (active)"),
        ["drop index idx_messages_active_null", "create index idx_messages_active_null"],
        ["idx_messages_active_null"],
    ),
    "an order": (
        ("DROP INDEX idx_sessions_started", "CREATE INDEX idx_sessions_started ON sessions (started_at)"),
        None,
        ["idx_sessions_started"],
    ),
    "a column": (
        ("ALTER TABLE sessions DROP COLUMN last_read_at",),
        ["add column sessions.last_read_at REAL"],
        ["sessions.last_read_at"],
    ),
    "a table": (
        ("DROP TABLE compression_locks",),
        ["create table compression_locks", "create index idx_compression_locks_expires"],
        [
            *("compression_locks.acquired_at", "compression_locks.expires_at", "compression_locks.holder"),
            *("compression_locks.session_id", "compression_locks", "idx_compression_locks_expires"),
        ],
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_named(current: Path, any_engine: Engine, run: Run, loss: str) -> None:
    statements, proposed, missing = LOSSES[loss]
    change(current, any_engine.driver, *statements)
    code, found = _check(run)
    assert code == 1
    assert [line.partition(": ")[0] for line in found["missing"]] == missing
    if proposed is not None:
        assert found["proposed"] == proposed
    assert found["beyond"] == []


def test_what_is_unknown_is_told_and_no_difference(current: Path, any_engine: Engine, run: Run) -> None:
    change(
        current,
        any_engine.driver,
        "CREATE TABLE gateway_heartbeats (backend_id TEXT PRIMARY KEY)",
        "ALTER TABLE sessions ADD COLUMN hidden INTEGER",
    )
    ran = run("db", "check")
    assert (ran.code, ran.out) == (0, "")
    assert "kept, unknown here: gateway_heartbeats" in ran.err
    assert "kept, unknown here: sessions.hidden" in ran.err
    assert _check(run)[1]["beyond"] == ["gateway_heartbeats", "sessions.hidden"]


# -- db current, db history ------------------------------------------------------------------------------------------


def test_current_says_revision_and_stamp(current: Path, run: Run) -> None:
    assert run("db", "current").data().lines == [f"{HEAD_REVISION} (head), schema version {STAMP}"]
    expected = {"revision": HEAD_REVISION, "head": HEAD_REVISION, "schema_version": STAMP}
    assert run("--json", "db", "current").data().json == expected


def test_current_of_a_file_that_was_not_adopted(old: Path, run: Run) -> None:
    before = files_of(old)
    ran = run("db", "current").data()
    assert ran.lines == ["none, schema version 16"]
    assert "hermes-store db upgrade" in ran.err
    assert run("--json", "db", "current").data().json == {
        "revision": None,
        "head": HEAD_REVISION,
        "schema_version": 16,
    }
    assert files_of(old) == before


def test_history_lists_every_revision_newest_first_and_needs_no_file(path: Path, run: Run) -> None:
    ran = run("db", "history").data()
    assert ran.lines[0].split() == ["revision", "purpose"]
    assert [line.split()[0] for line in ran.lines[1:]] == list(REVISIONS[::-1])
    found = run("--json", "db", "history").data().json
    assert [each["revision"] for each in found] == list(REVISIONS[::-1])
    assert all(each["purpose"].endswith(".") for each in found)
    assert not path.exists()


# -- as it is installed ----------------------------------------------------------------------------------------------


def test_all_of_it_works_from_any_folder(
    old: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No `alembic.ini`, no tree: the revisions are in the package. Stderr is no terminal, stdout holds data alone."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert run_apart("db", "check", db=old).code == 1
    upgraded = run_apart("--json", "db", "upgrade", db=old).data()
    assert upgraded.json["revisions_run"] == list(REVISIONS[2:])
    assert all(line.startswith("upgrading: ") for line in upgraded.err.splitlines())
    assert run_apart("db", "check", db=old).data().out == ""
    assert run_apart("db", "current", db=old).data().out.startswith(f"{HEAD_REVISION} (head)")
    assert run_apart("db", "history", db=None).data().lines[1].startswith(HEAD_REVISION)


@pytest.mark.parametrize("driver", installed())
def test_the_named_driver_serves(path: Path, run: Run, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", driver)
    build_version(path, load_driver(driver).module, 22, sessions=1, turns=1)
    run("db", "upgrade").data()
    assert run("db", "check").code == 0
