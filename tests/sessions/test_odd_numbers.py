"""Numbers that JSON has not, and ids that are none (EXPORT-2, SESSION-1)."""

import json
from typing import Any

import pytest

from hermes_store import SessionDB
from hermes_store.errors import InvalidValue
from hermes_store.portability.export import json_line
from tests.sessions.raw import RawFile


def _strictly(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_an_export_is_json_whatever_numbers_are_in_it(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", [{"score": float("nan"), "limit": float("inf")}])
    db.append_message("a", "assistant", tool_calls="[NaN, Infinity]")
    exported = db.export_session("a")
    assert exported is not None
    assert _strictly(json_line(exported))["messages"][0]["content"] == [{"score": "nan", "limit": "inf"}]


@pytest.mark.parametrize("session_id", [b"x", 1.5, ("a",), None])
def test_what_is_no_text_is_no_id(db: SessionDB, session_id: Any) -> None:
    with pytest.raises(InvalidValue, match="cannot be the id"):
        db.create_session(session_id, "cli")


def test_an_id_of_bytes_in_a_file_does_not_keep_others_from_being_listed(db: SessionDB, raw: RawFile) -> None:
    db.create_session("a", "cli")
    raw.run([("INSERT INTO sessions (id, source, started_at) VALUES (x'00ff', 'cli', 1.0)", ())])
    assert "a" in [row["id"] for row in db.list_sessions_rich()]
    assert len(db.export_all()) == 2
    db.end_session("a", "done")
    assert db.prune_sessions(older_than_days=0) == 0 or db.get_session("a") is None
