"""A model configuration that is no JSON object has no markers and breaks nothing (rule LINEAGE-1)."""

from typing import Any

import pytest

from hermes_store import SessionDB
from tests.sessions.raw import STARTED, RawFile, present

MALFORMED = [
    "not json",
    "",
    "{",
    '{"_branched_from": "root",}',
    "{'_delegate_from': 'root'}",
    '{"_delegate_from": NaN}',
    "[]",
    '["_delegate_from"]',
    '"_delegate_from"',
    "5",
    "null",
    "[" * 3000,
    '{"a": "\x00", "_delegate_from": "root"}',
    b"\xff_delegate_from",
]
UNUSUAL = [
    '{"_branched_from": "\\ud800"}',
    '{"_branched_from": {"a": 1}}',
    '{"_branched_from": ["root"]}',
    '{"_branched_from": 5}',
    '{"_branched_from": "\\u0000"}',
    '{"a.b": 1, "$": 2, "_branched_from": "elsewhere"}',
]
HIDDEN = [config.replace("_branched_from", "_delegate_from") for config in UNUSUAL]


@pytest.mark.parametrize("config", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_text_counts_as_no_markers(db: SessionDB, raw: RawFile, config: Any) -> None:
    raw.session("root", end_reason="compression", ended_at=STARTED + 5, model_config=config)
    raw.session("tip", parent_session_id="root", started_at=STARTED + 6, model_config=config)
    raw.session("bystander", model_config=config)
    raw.message("tip", content="ocelot")
    assert {row["id"] for row in db.list_sessions_rich()} == {"tip", "bystander"}
    assert len(db.list_sessions_rich(include_children=True)) == 3
    assert [hit["session_id"] for hit in db.search_messages("ocelot")] == ["tip"]
    assert len(db.export_all()) == 3
    assert present(db.export_session("tip"))["model_config"] == config
    assert db.get_messages_as_conversation("tip", include_ancestors=True)[0]["content"] == "ocelot"
    assert db.set_session_title("tip", "name") is True
    db.create_session("child", "cli", parent_session_id="root")
    assert db.delete_session("bystander") is True
    assert db.delete_session("tip") is True
    assert raw.count("sessions") == 0


@pytest.mark.parametrize("config", UNUSUAL + HIDDEN)
def test_unusual_markers_break_nothing(db: SessionDB, raw: RawFile, config: str) -> None:
    raw.session("root", end_reason="compression", ended_at=STARTED + 5, model_config=config)
    raw.session("odd", parent_session_id="root", model_config=config)
    raw.session("plain")
    assert "plain" in {row["id"] for row in db.list_sessions_rich()}
    assert db.set_session_title("odd", "name") is True
    assert db.prune_sessions(0) == 0
    assert db.delete_session("plain") is True
    assert db.delete_session("root") is True
    assert present(db.export_session("odd"))["id"] == "odd" if db.get_session("odd") else raw.count("sessions") == 0


@pytest.mark.parametrize("config", ["not json", "[1]", None])
def test_a_malformed_configuration_is_kept_as_it_is(db: SessionDB, raw: RawFile, config: str | None) -> None:
    raw.session("a", model_config=config)
    db.append_message("a", "user", "x")
    db.end_session("a", "x")
    assert present(db.get_session("a"))["model_config"] == config
