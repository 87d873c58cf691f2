"""Sessions of before version 16 are marked as delegate runs, and what is no JSON object is left alone byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_store import SessionDB
from tests.snapshots.build import build_version
from tests.snapshots.facts import add, message, session
from tests.snapshots.story import Row
from tests.snapshots.writing import raw
from tests.upgrade.files import check_quiet, module_of, upgrade, values

PARENT: Row = session("P", title="parent", message_count=1)


def _file(path: Path, driver: str, *rows: Row, tools: tuple[str, ...] = (), version: int = 15) -> None:
    """A file with a parent and these sessions; those named in `tools` have a message of a tool."""
    build_version(path, module_of(driver), version, sessions=1, turns=1)
    messages = [message(name, "out", role="tool") for name in tools]
    add(path, module_of(driver), {"sessions": [PARENT, *rows], "messages": messages})


def _child(name: str, config: object, **columns: Any) -> Row:
    return session(name, parent_session_id="P", model_config=config, **columns)


def _config(path: Path, driver: str, name: str) -> tuple[object, str]:
    ((value, kind),) = values(
        path, driver, "SELECT model_config, typeof(model_config) FROM sessions WHERE id = ?", name
    )
    return value, kind


UNUSABLE: dict[str, object] = {
    "malformed": "{bad",
    "empty": "",
    "blank": " \n",
    "list": '[ {"_delegate_from": 1} ]',
    "number": "1.50",
    "text": '"x"',
    "null": "null",
    "true": "true",
    "behind_nul": '{"a": 1}\0{"b": 2}',
    "only_nul": "\0",
    "nul_in_text": '{"a": "\0"}',
    "blob": b'{"a": 1}',
    "odd_blob": b"\xff\xfe\x00",
    "integer": 7,
    "real": 1.5,
    "single_quotes": "{'a': 1}",
    "comma": '{"a": 1,}',
    "comment": '{"a": 1 /* no */}',
    "deep": "[" * 5000 + "]" * 5000,
    "too_deep": '{"a":' * 3000 + "1" + "}" * 3000,
}
"""What is no JSON object of the old kind."""


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_object_stays_and_keeps_nobody_else_from_being_marked(path: Path, driver: str, name: str) -> None:
    rows = [_child("before", None), _child("odd", UNUSABLE[name]), _child("after", "{}")]
    root = session("odd-root", model_config=UNUSABLE[name], message_count=1)
    _file(path, driver, *rows, root, session("root", message_count=1), tools=("odd-root", "root"))
    # A number in a column of text is text.
    before = {each: _config(path, driver, each) for each in ("odd", "odd-root")}
    upgrade(path)
    assert {each: _config(path, driver, each) for each in before} == before
    for each in ("before", "after"):
        assert _config(path, driver, each) == ('{"_delegate_from":"P"}', "text")
    assert _config(path, driver, "root") == ('{"_delegate_from":"__orphaned__"}', "text")
    check_quiet(path, driver)
    with SessionDB(path) as db:
        assert db.list_sessions_rich(limit=10)
        assert db.get_session("odd") is not None


UNTOUCHED = {
    "branch": '{ "_branched_from" : "P" , "a" : 1.0 }',
    "marked": '{"_delegate_from":\t"zz"}',
    "marked_empty": '{"_delegate_from": ""}',
    "branch_false": '{"_branched_from": false}',
    "both": '{"_branched_from": "x", "_delegate_from": "y"}',
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_a_config_with_a_marker_keeps_every_byte(path: Path, driver: str, name: str) -> None:
    _file(path, driver, _child("s", UNTOUCHED[name]))
    upgrade(path)
    assert _config(path, driver, "s") == (UNTOUCHED[name], "text")


@pytest.mark.parametrize("marker", ["_delegate_from", "_branched_from"])
def test_a_marker_that_is_null_is_none(path: Path, one_driver: str, marker: str) -> None:
    _file(path, one_driver, _child("s", json.dumps({marker: None, "a": 1})))
    upgrade(path)
    marked = json.loads(str(_config(path, one_driver, "s")[0]))
    assert marked == {marker: None, "a": 1} | {"_delegate_from": "P"}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=st.dictionaries(
        st.text(max_size=8).filter(lambda key: not key.startswith(("_delegate_from", "_branched_from"))),
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20) | st.lists(st.integers()),
        max_size=5,
    ),
    ascii_only=st.booleans(),
)  # fmt: skip
def test_what_a_config_says_stays_beside_the_marker(
    path: Path, one_driver: str, config: dict[str, Any], ascii_only: bool
) -> None:
    path.unlink(missing_ok=True)
    text = json.dumps(config, ensure_ascii=ascii_only)
    text = text.encode("utf-8", "replace").decode()
    told = json.loads(text)
    _file(path, one_driver, _child("s", text))
    upgrade(path)
    marked = json.loads(str(_config(path, one_driver, "s")[0]))
    if "\0" in text:
        assert marked == told
    else:
        assert marked == told | {"_delegate_from": "P"}


# -- who is a child ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "ended_at", "started_at", "is_marked"),
    [
        (None, None, 60.0, True),
        ("user_exit", 50.0, 60.0, True),
        ("branched", 50.0, 60.0, False),
        ("branched", 50.0, 50.0, False),
        ("branched", 50.0, 49.5, True),
        ("branched", None, 60.0, True),
        ("compression", 50.0, 60.0, False),
        ("compression", None, 60.0, False),
        ("compression", 50.0, 40.0, False),
        ("Compression", 50.0, 60.0, True),
    ],
)
def test_a_branch_and_a_continuation_are_no_delegate_runs(
    path: Path, one_driver: str, reason: str | None, ended_at: float | None, started_at: float, is_marked: bool
) -> None:
    ended = session("E", end_reason=reason, ended_at=ended_at)
    _file(path, one_driver, ended, session("s", parent_session_id="E", started_at=started_at))
    upgrade(path)
    assert _config(path, one_driver, "s")[0] == ('{"_delegate_from":"E"}' if is_marked else None)


@pytest.mark.parametrize(
    ("columns", "is_marked"),
    [
        ({"message_count": 25}, True),
        ({"message_count": 26}, False),
        ({"message_count": 0}, True),
        ({"message_count": 3, "title": "kept"}, False),
        ({"message_count": 3, "title": ""}, False),
        ({"message_count": 3, "end_reason": "user_exit"}, True),
    ],
)
def test_a_short_session_of_tools_without_anybody_is_an_orphan(
    path: Path, one_driver: str, columns: Row, is_marked: bool
) -> None:
    _file(path, one_driver, session("s", **columns), session("idle", message_count=1), tools=("s",))
    upgrade(path)
    assert _config(path, one_driver, "s")[0] == ('{"_delegate_from":"__orphaned__"}' if is_marked else None)
    assert _config(path, one_driver, "idle")[0] is None


def test_a_session_that_was_not_counted_is_no_orphan(path: Path, one_driver: str) -> None:
    """Counters that are NULL are counted anew, but not before anybody asks who has few messages."""
    _file(path, one_driver, session("s", message_count=None), tools=("s",))
    upgrade(path)
    assert _config(path, one_driver, "s")[0] is None
    assert values(path, one_driver, "SELECT message_count FROM sessions WHERE id = 's'") == [(1,)]


def test_chains_of_children_are_marked_each_with_its_own_parent(path: Path, one_driver: str) -> None:
    rows = [
        session("s0", parent_session_id="P"),
        *(session(f"s{n}", parent_session_id=f"s{n - 1}") for n in range(1, 5)),
    ]
    _file(path, one_driver, *rows)
    upgrade(path)
    held = {name: json.loads(str(_config(path, one_driver, name)[0])) for name in ("s0", "s1", "s4")}
    assert held == {"s0": {"_delegate_from": "P"}, "s1": {"_delegate_from": "s0"}, "s4": {"_delegate_from": "s3"}}


@pytest.mark.parametrize("version", [16, 17, 22, 23])
def test_later_files_are_not_marked(path: Path, one_driver: str, version: int) -> None:
    _file(path, one_driver, _child("s", None), session("root", message_count=1), tools=("root",), version=version)
    upgrade(path)
    assert (_config(path, one_driver, "s")[0], _config(path, one_driver, "root")[0]) == (None, None)


@pytest.mark.parametrize("parent", ["", "P\0Q", "é 部署", "'; --"])
def test_the_marker_names_the_parent_whatever_its_id(path: Path, one_driver: str, parent: str) -> None:
    _file(path, one_driver, session("s", parent_session_id=parent), session(parent, title="t"))
    upgrade(path)
    assert json.loads(str(_config(path, one_driver, "s")[0])) == {"_delegate_from": parent}


def test_marked_sessions_are_hidden_and_go_with_their_parent(path: Path, driver: str) -> None:
    _file(path, driver, _child("s", None))
    with SessionDB(path) as db:
        assert "s" not in {each["id"] for each in db.list_sessions_rich(limit=10)}
        assert db.delete_session("P")
    with raw(path, module_of(driver)) as connection:
        assert connection.execute("SELECT id FROM sessions WHERE id IN ('s', 'P')").fetchall() == []
