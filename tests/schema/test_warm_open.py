"""Opening a current file again changes nothing and costs next to nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from tests.schema.inspecting import change, files_of, master, meta, opened
from tests.support.builders import build_v23
from tests.support.drivers import Engine
from tests.support.statements import log_statements


@pytest.fixture(params=["fresh", "adopted"])
def current(request: pytest.FixtureRequest, path: Path, engine: Engine) -> Path:
    """A store that was opened once and closed."""
    if request.param == "adopted":
        build_v23(path, engine.driver, journal_mode=engine.journal_mode)
    Store.open(path).close()
    return path


def test_a_second_open_changes_nothing(current: Path, engine: Engine) -> None:
    with opened(current, engine.driver) as raw:
        before = master(raw), meta(raw)
    with Store.open(current) as store:
        assert not store.report.changed
        assert store.report.revision == "0023"
    with opened(current, engine.driver) as raw:
        assert (master(raw), meta(raw)) == before


def test_a_second_open_leaves_every_byte_of_the_file(current: Path, engine: Engine) -> None:
    before = current.read_bytes()
    Store.open(current).close()
    assert current.read_bytes() == before


def test_a_file_in_use_is_still_current(current: Path, engine: Engine) -> None:
    with SessionDB(current) as db:
        db.create_session("new", "cli")
        db.append_message("new", "user", [{"type": "text", "text": "parts"}])
    with Store.open(current) as store:
        assert not store.report.changed


def test_a_second_open_runs_at_most_five_statements(
    current: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_statements(monkeypatch) as log, Store.open(current):
        opening = list(log.without_transactions)
        pragmas = [text for text in log.statements if "schema_version" in text and "PRAGMA" in text.upper()]
    assert 1 <= len(opening) + len(pragmas) <= 5


def test_a_second_open_takes_no_write_lock(current: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with log_statements(monkeypatch) as log, Store.open(current):
        assert log.statements
        assert [text for text in log.statements if text.upper().startswith(("BEGIN IMMEDIATE", "COMMIT"))] == []


_PROBE = """
import json, sys
from hermes_store import SessionDB
with SessionDB(sys.argv[1]) as db:
    db.list_sessions_rich()
    db.search_messages("docker")
print(json.dumps(sorted(sys.modules)))
"""


def test_using_a_current_file_imports_neither_alembic_nor_reflection(current: Path, engine: Engine) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, str(current)], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    loaded = json.loads(done.stdout)
    assert "hermes_store.store" in loaded
    heavy = ("alembic", "mako", "hermes_store.schema.environment", "rich", "click")
    assert [name for name in loaded if name.split(".")[0] in heavy or name in heavy] == []


@pytest.mark.parametrize(
    "damage",
    [
        "DROP INDEX idx_sessions_source",
        "DROP TRIGGER messages_fts_insert",
        "ALTER TABLE sessions DROP COLUMN last_read_at",
        "DROP TABLE compression_locks",
        "DELETE FROM alembic_version",
        "DELETE FROM state_meta WHERE key = 'hermes_store_fingerprint'",
    ],
)
def test_a_changed_schema_is_noticed_and_mended(path: Path, engine: Engine, damage: str) -> None:
    fresh = path.with_name("fresh.db")
    for each in (path, fresh):
        Store.open(each).close()
    change(path, engine.driver, damage)
    Store.open(path).close()
    with opened(path, engine.driver) as raw, opened(fresh, engine.driver) as other:
        assert {row[:3] for row in master(raw)} == {row[:3] for row in master(other)}
    with Store.open(path) as store:
        assert not store.report.changed


def test_things_of_others_are_noticed_and_kept(current: Path, engine: Engine) -> None:
    change(
        current,
        engine.driver,
        "CREATE TABLE gateway_hygiene_state (session_key TEXT PRIMARY KEY)",
        "ALTER TABLE sessions ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX idx_theirs ON sessions (hidden)",
    )
    with opened(current, engine.driver) as raw:
        before = master(raw)
    Store.open(current).close()
    with opened(current, engine.driver) as raw:
        assert master(raw) == before
    with Store.open(current) as store:
        assert not store.report.changed


def test_a_closed_store_leaves_no_sidecar_behind(current: Path, engine: Engine) -> None:
    Store.open(current).close()
    assert set(files_of(current)) - {"state.db.quarantine.lock"} == {"state.db"}
