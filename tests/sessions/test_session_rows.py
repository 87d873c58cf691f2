"""The shape of a session, and how it ends and lives again (rules SESSION-3 and SESSION-4)."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import ReadOnlyStore, SessionNotFound
from tests.sessions.raw import RawFile, on_one_engine, present
from tests.support.clocks import FakeClock

COLUMNS = (
    "id", "source", "user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json",
    "expiry_finalized", "model", "model_config", "system_prompt", "parent_session_id", "started_at", "ended_at",
    "end_reason", "message_count", "tool_call_count", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "reasoning_tokens", "cwd", "git_branch", "git_repo_root", "billing_provider",
    "billing_base_url", "billing_mode", "estimated_cost_usd", "actual_cost_usd", "cost_status", "cost_source",
    "pricing_version", "title", "last_activity_at", "last_activity_description", "last_activity_provenance",
    "api_call_count", "handoff_state", "handoff_platform", "handoff_error", "compression_failure_cooldown_until",
    "compression_failure_error", "compression_fallback_streak", "compression_ineffective_count", "profile_name",
    "rewind_count", "archived", "pinned", "last_read_at",
)  # fmt: skip
ZEROS = (
    "expiry_finalized", "message_count", "tool_call_count", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "reasoning_tokens", "api_call_count", "rewind_count", "compression_fallback_streak",
    "compression_ineffective_count", "archived", "pinned",
)  # fmt: skip


def test_a_fresh_session_has_every_column_with_its_default(db: SessionDB) -> None:
    db.create_session("a", "cli")
    row = present(db.get_session("a"))
    assert type(row) is dict
    assert tuple(row) == COLUMNS
    assert {name: value for name, value in row.items() if value is not None} == {
        "id": "a",
        "source": "cli",
        "started_at": row["started_at"],
        **dict.fromkeys(ZEROS, 0),
    }
    assert {name: type(row[name]) for name in ZEROS} == dict.fromkeys(ZEROS, int)
    assert type(row["started_at"]) is float


def test_flags_that_are_set_come_back_as_ones(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", archived=1, pinned=1, expiry_finalized=1)
    row = present(db.get_session("a"))
    assert [(row[name], type(row[name])) for name in ("archived", "pinned", "expiry_finalized")] == [(1, int)] * 3


@on_one_engine
@pytest.mark.parametrize("config", ["not json", '{"a": 1}', "[]", ""])
def test_json_columns_come_back_as_the_text_that_is_stored(db: SessionDB, raw: RawFile, config: str) -> None:
    raw.session("a", model_config=config, origin_json=config)
    row = present(db.get_session("a"))
    assert (row["model_config"], row["origin_json"]) == (config, config)


@on_one_engine
@pytest.mark.parametrize("session_id", ["b", "A", "a ", "", "a%", None])
def test_another_id_finds_nothing(db: SessionDB, session_id: str) -> None:
    db.create_session("a", "cli")
    assert db.get_session(session_id) is None


# -- the end ----------------------------------------------------------------------------------------------------


def test_ending_stores_time_and_reason(store: Store, clock: FakeClock) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    clock.advance(60)
    assert store.write(lambda unit: unit.end_session("a", "user_exit")) is True
    with store.reader() as reader:
        record = reader.sessions.get("a")
    assert (record.ended_at, record.end_reason) == (clock.now(), "user_exit")
    assert record.started_at == clock.now() - 60


def test_the_first_reason_wins(store: Store, clock: FakeClock) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    store.write(lambda unit: unit.end_session("a", "compression"))
    ended_at = clock.now()
    clock.advance(60)
    assert store.write(lambda unit: unit.end_session("a", "user_exit")) is False
    with store.reader() as reader:
        record = reader.sessions.get("a")
    assert (record.ended_at, record.end_reason) == (ended_at, "compression")


def test_the_first_reason_wins_across_handles_and_without_a_reason(db: SessionDB, path: Path) -> None:
    db.create_session("a", "cli")
    with SessionDB(path) as other:
        other.end_session("a", None)
        first = present(other.get_session("a"))
    db.end_session("a", "late")
    row = present(db.get_session("a"))
    assert (row["ended_at"], row["end_reason"]) == (first["ended_at"], None)
    assert row["ended_at"] is not None


def test_reopening_forgets_the_end_and_allows_another(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.end_session("a", "compression")
    db.reopen_session("a")
    row = present(db.get_session("a"))
    assert (row["ended_at"], row["end_reason"]) == (None, None)
    db.end_session("a", "second")
    assert present(db.get_session("a"))["end_reason"] == "second"


def test_reopening_a_live_session_changes_nothing(db: SessionDB) -> None:
    db.create_session("a", "cli")
    before = db.get_session("a")
    db.reopen_session("a")
    assert db.get_session("a") == before


@pytest.mark.parametrize("session_id", ["nobody", "", None])
def test_ending_and_reopening_an_unknown_session_do_nothing(db: SessionDB, raw: RawFile, session_id: str) -> None:
    db.end_session(session_id, "x")
    db.reopen_session(session_id)
    assert raw.count("sessions") == 0


def test_a_unit_says_that_a_session_is_unknown(store: Store) -> None:
    with pytest.raises(SessionNotFound):
        store.write(lambda unit: unit.end_session("nobody", "x"))


@pytest.mark.parametrize("reason", ["", "部署", "lone \ud800"])
def test_the_reason_is_free_text(db: SessionDB, reason: str) -> None:
    db.create_session("a", "cli")
    db.end_session("a", reason)
    assert present(db.get_session("a"))["end_reason"] == reason.replace("\ud800", "\ufffd")


# -- the handle -------------------------------------------------------------------------------------------------


def test_a_handle_that_only_reads_refuses_to_write(db: SessionDB, path: Path) -> None:
    db.create_session("a", "cli")
    with SessionDB(path, read_only=True) as reading:
        before = reading.get_session("a")
        with pytest.raises(ReadOnlyStore):
            reading.end_session("a", "x")
        assert reading.get_session("a") == before


def test_the_path_outlives_the_handle(db: SessionDB, path: Path) -> None:
    db.close()
    assert db.db_path == path
