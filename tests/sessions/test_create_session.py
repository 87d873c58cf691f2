"""Creating sessions, filling what they lack, inheriting from the parent (rules SESSION-1 and SESSION-2)."""

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from hermes_store.errors import ConstraintFailed, ForeignKeyFailed
from tests.sessions.raw import INTEGRITY_ERROR, RawFile, on_one_engine, present

FILLED = (
    "model", "system_prompt", "session_key", "chat_id", "chat_type", "thread_id", "cwd", "profile_name",
    "git_repo_root",
)  # fmt: skip
WORKSPACE = ("cwd", "git_repo_root", "git_branch", "profile_name")
IDENTITY = ("user_id", "session_key", "chat_id", "chat_type", "thread_id", "display_name", "origin_json")


def row_of(db: SessionDB, session_id: str) -> dict[str, Any]:
    return present(db.get_session(session_id))


def test_a_new_session_returns_its_id_and_begins_now(db: SessionDB) -> None:
    before = db.store.clock.now()
    assert db.create_session("a", "telegram") == "a"
    after = db.store.clock.now()
    row = row_of(db, "a")
    assert row["source"] == "telegram"
    assert before <= row["started_at"] <= after


def test_a_new_session_has_what_it_was_given(db: SessionDB) -> None:
    for column in (*FILLED, "user_id"):
        db.create_session(column, "cli", **{column: "given"})
        row = row_of(db, column)
        assert {name: row[name] for name in (*FILLED, "user_id") if row[name] is not None} == {column: "given"}


def test_creating_again_fills_a_column_that_is_null_and_keeps_one_that_is_not(db: SessionDB) -> None:
    db.create_session("a", "cli")
    for column in FILLED:
        db.create_session("a", "cli", **{column: f"first {column}"})
        db.create_session("a", "cli", **{column: "second"})
    row = row_of(db, "a")
    assert {name: row[name] for name in FILLED} == {name: f"first {name}" for name in FILLED}


def test_creating_again_changes_neither_origin_nor_end(db: SessionDB, raw: RawFile) -> None:
    db.create_session("a", "unknown")
    db.set_session_title("a", "name")
    db.end_session("a", "done")
    before = row_of(db, "a")
    db.create_session("a", "telegram", user_id="u")
    assert row_of(db, "a") == before
    assert raw.count("sessions") == 1


def test_an_empty_text_is_a_value_and_is_not_filled(db: SessionDB) -> None:
    db.create_session("a", "cli", system_prompt="")
    db.create_session("a", "cli", system_prompt="later")
    assert row_of(db, "a")["system_prompt"] == ""


@on_one_engine
@pytest.mark.parametrize(
    ("config", "stored"),
    [
        (None, None),
        ({}, None),
        ({"a": 1, "ü": [None]}, '{"a": 1, "\\u00fc": [null]}'),
        ([1], "[1]"),
        ('{"a": 1}', json.dumps('{"a": 1}')),
    ],
)
def test_the_model_configuration_is_stored_as_json(db: SessionDB, config: Any, stored: str | None) -> None:
    db.create_session("a", "cli", model_config=config)
    assert row_of(db, "a")["model_config"] == stored


def test_the_model_configuration_is_filled_too(db: SessionDB) -> None:
    db.create_session("a", "cli", model_config={})
    db.create_session("a", "cli", model_config={"n": 1})
    db.create_session("a", "cli", model_config={"n": 2})
    assert row_of(db, "a")["model_config"] == '{"n": 1}'


def test_a_configuration_that_json_cannot_hold_writes_nothing(db: SessionDB, raw: RawFile) -> None:
    with pytest.raises(TypeError):
        db.create_session("a", "cli", model_config={"a": {1}})
    assert raw.count("sessions") == 0


@pytest.mark.parametrize("parent", ["nobody", ""])
def test_an_unknown_parent_is_refused_and_nothing_written(db: SessionDB, raw: RawFile, parent: str) -> None:
    with pytest.raises(ForeignKeyFailed, match="FOREIGN KEY constraint failed") as refused:
        db.create_session("a", "cli", parent_session_id=parent)
    assert isinstance(refused.value, INTEGRITY_ERROR)
    assert raw.count("sessions") == 0


def test_an_unknown_parent_is_refused_when_filling_too(db: SessionDB) -> None:
    db.create_session("a", "cli")
    before = row_of(db, "a")
    with pytest.raises(ForeignKeyFailed):
        db.create_session("a", "cli", parent_session_id="nobody", model="m")
    assert row_of(db, "a") == before


def test_a_session_may_name_itself_as_parent(db: SessionDB) -> None:
    db.create_session("a", "cli", parent_session_id="a", cwd="/w")
    assert row_of(db, "a")["parent_session_id"] == "a"
    assert row_of(db, "a")["cwd"] == "/w"


def test_a_source_is_required_and_may_be_empty(db: SessionDB, raw: RawFile) -> None:
    with pytest.raises(ConstraintFailed) as refused:
        db.create_session("a", None)  # type: ignore[arg-type]
    assert isinstance(refused.value, INTEGRITY_ERROR)
    assert raw.count("sessions") == 0
    db.create_session("a", "")
    assert row_of(db, "a")["source"] == ""


def test_unusual_ids(db: SessionDB) -> None:
    for session_id in ("", " ", "../../x", "a%_[*]", "部署", "x" * 5000):
        assert db.create_session(session_id, "cli") == session_id
        assert row_of(db, session_id)["id"] == session_id
    assert db.create_session(7, "cli") == 7  # type: ignore[arg-type, comparison-overlap]
    assert row_of(db, "7")["id"] == "7"


def test_no_id_is_refused(db: SessionDB, raw: RawFile) -> None:
    with pytest.raises(ValueError, match="id"):
        db.create_session(None, "cli")  # type: ignore[arg-type]
    assert raw.count("sessions") == 0


def test_the_id_that_is_returned_finds_the_session(db: SessionDB) -> None:
    returned = db.create_session("lone \ud800", "cli")
    assert db.get_session(returned) is not None
    db.append_message(returned, "user", "kept")
    assert [each["content"] for each in db.get_messages(returned)] == ["kept"]


def test_a_lone_surrogate_in_a_text_never_stops_a_session(db: SessionDB) -> None:
    columns = (*FILLED, "user_id", "source")
    db.create_session("a", **dict.fromkeys(columns, "x\ud800"))
    row = row_of(db, "a")
    assert {name: row[name] for name in columns} == dict.fromkeys(columns, "x\ufffd")


def test_other_keywords_are_refused(db: SessionDB) -> None:
    for name in ("title", "display_name", "git_branch", "origin_json", "bogus"):
        with pytest.raises(TypeError, match=name):
            db.create_session("a", "cli", **{name: "x"})


def test_extras_are_keywords(db: SessionDB) -> None:
    with pytest.raises(TypeError):
        db.create_session("a", "cli", "model")  # type: ignore[call-arg]


# -- inheritance ------------------------------------------------------------------------------------------------


def parent(raw: RawFile, end_reason: str | None) -> dict[str, str]:
    columns = {name: f"parent {name}" for name in (*WORKSPACE, *IDENTITY)}
    raw.session("parent", end_reason=end_reason, ended_at=5.0 if end_reason else None, **columns)
    return columns


@pytest.mark.parametrize("end_reason", [None, "branched", "session_reset", "compression"])
def test_a_child_works_where_its_parent_worked(db: SessionDB, raw: RawFile, end_reason: str | None) -> None:
    columns = parent(raw, end_reason)
    db.create_session("child", "cli", parent_session_id="parent")
    row = row_of(db, "child")
    assert {name: row[name] for name in WORKSPACE} == {name: columns[name] for name in WORKSPACE}


@pytest.mark.parametrize(
    ("end_reason", "inherits"), [(None, False), ("branched", False), ("session_reset", False), ("compression", True)]
)
def test_only_a_continuation_takes_over_who_is_talking(
    db: SessionDB, raw: RawFile, end_reason: str | None, *, inherits: bool
) -> None:
    columns = parent(raw, end_reason)
    db.create_session("child", "cli", parent_session_id="parent")
    row = row_of(db, "child")
    assert {name: row[name] for name in IDENTITY} == {name: columns[name] if inherits else None for name in IDENTITY}


def test_nothing_else_is_inherited(db: SessionDB, raw: RawFile) -> None:
    parent(raw, "compression")
    raw.change("parent", title="t", model="m", model_config="{}", system_prompt="s", pinned=1, input_tokens=5)
    db.create_session("child", "tool", parent_session_id="parent")
    row = row_of(db, "child")
    assert (row["title"], row["model"], row["model_config"], row["system_prompt"]) == (None, None, None, None)
    assert (row["source"], row["pinned"], row["input_tokens"], row["ended_at"]) == ("tool", 0, 0, None)


def test_what_the_child_was_given_is_kept(db: SessionDB, raw: RawFile) -> None:
    parent(raw, "compression")
    own = dict.fromkeys(("cwd", "git_repo_root", "profile_name", "session_key", "user_id"), "own")
    db.create_session("child", "cli", parent_session_id="parent", **own)
    row = row_of(db, "child")
    assert {name: row[name] for name in own} == own
    assert (row["git_branch"], row["chat_id"]) == ("parent git_branch", "parent chat_id")


def test_filling_in_the_parent_later_inherits_then(db: SessionDB, raw: RawFile) -> None:
    columns = parent(raw, "compression")
    db.create_session("child", "cli", cwd="/own")
    db.create_session("child", "cli", parent_session_id="parent")
    row = row_of(db, "child")
    assert (row["cwd"], row["git_branch"], row["chat_id"]) == ("/own", columns["git_branch"], columns["chat_id"])


def test_the_parent_that_is_stored_counts_not_the_one_that_is_named(db: SessionDB, raw: RawFile) -> None:
    parent(raw, None)
    raw.session("other", cwd="/other")
    db.create_session("child", "cli", parent_session_id="other")
    raw.change("child", cwd=None)
    db.create_session("child", "cli", parent_session_id="parent")
    assert row_of(db, "child")["parent_session_id"] == "other"
    assert row_of(db, "child")["cwd"] == "/other"


def test_creating_again_without_a_parent_inherits_nothing(db: SessionDB, raw: RawFile) -> None:
    parent(raw, None)
    raw.session("child", parent_session_id="parent")
    db.create_session("child", "cli")
    assert row_of(db, "child")["cwd"] is None


def test_a_session_outlives_its_handle(db: SessionDB, path: Path) -> None:
    db.create_session("a", "cli", model="m")
    db.close()
    with SessionDB(path) as again:
        assert row_of(again, "a")["model"] == "m"
