"""Messages as stored rows, in insertion order (rule READ-4)."""

from typing import Any

import pytest

from hermes_store import SessionDB, Store
from tests.sessions.raw import RawFile, on_one_engine, only
from tests.sessions.test_append_columns import COLUMNS


@pytest.fixture
def ids(db: SessionDB, raw: RawFile) -> list[int]:
    """The ids of five rows of `a`: live, archived, live, undone, live; their times run backwards."""
    raw.session("a")
    raw.session("b")
    states = [(1, 0), (0, 1), (1, 0), (0, 0), (1, 0)]
    found = []
    for number, (active, compacted) in enumerate(states):
        found.append(raw.message("a", active=active, compacted=compacted, timestamp=100.0 - number))
        raw.message("b")
    return found


def test_a_row_has_every_column_in_order(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", "x")
    message = only(db.get_messages("a"))
    assert type(message) is dict
    assert tuple(message) == COLUMNS
    assert [(message[name], type(message[name])) for name in ("observed", "active", "compacted")] == [
        (0, int),
        (1, int),
        (0, int),
    ]


@on_one_engine
@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ({}, [0, 2, 4]),
        ({"include_inactive": True}, [0, 1, 2, 3, 4]),
        ({"include_inactive": 1}, [0, 1, 2, 3, 4]),
        ({"include_inactive": False}, [0, 2, 4]),
        ({"limit": 2}, [0, 2]),
        ({"limit": 0}, []),
        ({"limit": -1}, [0, 2, 4]),
        ({"limit": -7, "offset": 1}, [2, 4]),
        ({"limit": 99}, [0, 2, 4]),
        ({"offset": 1}, [2, 4]),
        ({"offset": 3}, []),
        ({"offset": -2}, [0, 2, 4]),
        ({"limit": 1, "offset": 1}, [2]),
        ({"limit": 1, "offset": -3}, [0]),
        ({"limit": 0, "offset": 1}, []),
        ({"limit": 2, "offset": 3, "include_inactive": True}, [3, 4]),
        ({"offset": 4, "include_inactive": True}, [4]),
    ],
)
def test_pages_and_what_is_not_live(
    db: SessionDB, ids: list[int], arguments: dict[str, Any], places: list[int]
) -> None:
    assert [message["id"] for message in db.get_messages("a", **arguments)] == [ids[place] for place in places]


def test_arguments_by_position(db: SessionDB, ids: list[int]) -> None:
    assert [message["id"] for message in db.get_messages("a", True, 2, 1)] == ids[1:3]


@on_one_engine
@pytest.mark.parametrize("session_id", ["nobody", "", "A", None])
def test_an_unknown_session_has_no_messages(db: SessionDB, ids: list[int], session_id: str) -> None:
    assert db.get_messages(session_id) == []


@on_one_engine
@pytest.mark.parametrize(
    ("column", "stored", "read"),
    [
        ("content", "\x00json:[1]", [1]),
        ("content", "\x00json:[1", "\x00json:[1"),
        ("content", b"\xff", b"\xff"),
        ("content", " <memory-context>x</memory-context> ", " <memory-context>x</memory-context> "),
        ("tool_calls", '[{"id": "c"}]', [{"id": "c"}]),
        ("tool_calls", "{bad", []),
        ("tool_calls", "null", None),
        ("tool_calls", "", ""),
        ("display_metadata", '{"a": 1}', {"a": 1}),
        ("display_metadata", '"{\\"a\\": 1}"', {"a": 1}),
        ("display_metadata", "{bad", None),
        ("display_metadata", "[1]", None),
        ("display_metadata", "", None),
        ("reasoning_details", "[1]", "[1]"),
        ("codex_reasoning_items", "{bad", "{bad"),
        ("codex_message_items", '"\\"x\\""', '"\\"x\\""'),
        ("observed", None, None),
    ],
)
def test_what_a_row_holds_is_decoded_or_left(db: SessionDB, raw: RawFile, column: str, stored: Any, read: Any) -> None:
    raw.session("a")
    raw.message("a", **{column: stored})
    assert only(db.get_messages("a"))[column] == read


def test_records_say_the_same(store: Store, raw: RawFile) -> None:
    raw.session("a")
    raw.message("a", content="\x00json:[1]", tool_calls='[{"id": "c"}]', display_metadata='{"a": 1}', observed=1)
    with store.reader() as reader:
        (record,) = reader.messages.of_session("a")
    assert (record.content, record.tool_calls, record.display_metadata) == ([1], [{"id": "c"}], {"a": 1})
    assert (record.observed, record.active, record.compacted) == (1, 1, 0)
