"""Which sessions a list shows, and in which order (rules LIST-1, LIST-3, LIST-5)."""

from typing import Any

import pytest

from hermes_store import SessionDB
from hermes_store.errors import InvalidValue, NotBuilt
from tests.sessions.raw import STARTED, RawFile, on_one_engine, only
from tests.sessions.test_session_rows import COLUMNS


def listed(db: SessionDB, **arguments: Any) -> list[str]:
    return [row["id"] for row in db.list_sessions_rich(**arguments)]


def test_a_line_has_all_columns_and_what_people_look_at(db: SessionDB) -> None:
    db.create_session("a", "cli", system_prompt="p")
    row = only(db.list_sessions_rich())
    assert tuple(row) == (*COLUMNS, "preview", "last_active", "unread")
    assert (row["preview"], row["last_active"], row["unread"]) == ("", row["started_at"], False)
    session = db.get_session("a")
    assert {name: row[name] for name in COLUMNS} == session


def test_compact_lines_leave_the_prompt_out(db: SessionDB) -> None:
    db.create_session("a", "cli", system_prompt="p")
    full, compact = only(db.list_sessions_rich()), only(db.list_sessions_rich(compact_rows=True))
    assert {**compact, "system_prompt": "p"} == full
    assert "system_prompt" not in compact


def test_an_empty_store_has_an_empty_list(db: SessionDB) -> None:
    assert db.list_sessions_rich() == []
    assert db.list_sessions_rich(include_pinned=True, include_children=True, limit=-1) == []


# -- which ones -------------------------------------------------------------------------------------------------

BRANCHED = {"end_reason": "branched", "ended_at": STARTED + 10}
COMPRESSED = {"end_reason": "compression", "ended_at": STARTED + 10}


@on_one_engine
@pytest.mark.parametrize(
    ("parent", "child", "shown"),
    [
        ({}, {}, False),
        ({}, {"model_config": '{"_branched_from": "parent"}'}, True),
        ({}, {"model_config": '{"_branched_from": "elsewhere"}'}, True),
        ({}, {"model_config": '{"_branched_from": ""}'}, True),
        ({}, {"model_config": '{"_branched_from": null}'}, False),
        ({}, {"model_config": '{"_delegate_from": "parent"}'}, False),
        ({}, {"model_config": '{"_branched_from": "parent", "_delegate_from": "parent"}'}, False),
        ({}, {"model_config": '{"_branched_from": "parent", "_delegate_from": null}'}, True),
        ({}, {"source": "tool"}, False),
        (BRANCHED, {"started_at": STARTED + 10}, True),
        (BRANCHED, {"started_at": STARTED + 11}, True),
        (BRANCHED, {"started_at": STARTED + 9}, False),
        (BRANCHED, {"started_at": STARTED + 11, "model_config": '{"_delegate_from": "parent"}'}, False),
        ({"end_reason": "session_reset", "ended_at": STARTED}, {}, False),
        (COMPRESSED, {"model_config": '{"_branched_from": "parent"}'}, True),
        (COMPRESSED, {"model_config": '{"_delegate_from": "parent"}'}, False),
        (COMPRESSED, {"source": "tool"}, False),
    ],
)
def test_which_children_head_a_conversation_of_their_own(
    db: SessionDB, raw: RawFile, parent: dict[str, Any], child: dict[str, Any], *, shown: bool
) -> None:
    raw.session("parent", **parent)
    raw.session("child", parent_session_id="parent", **child)
    assert set(listed(db)) == ({"parent", "child"} if shown else {"parent"})
    assert set(listed(db, include_children=True)) == {"parent", "child"}


@on_one_engine
@pytest.mark.parametrize(
    ("config", "shown"),
    [
        (None, True),
        ("{}", True),
        ('{"_branched_from": "gone"}', True),
        ('{"_delegate_from": null}', True),
        ('{"_delegate_from": "gone"}', False),
        ('{"_delegate_from": "__orphaned__"}', False),
        ('{"_delegate_from": "gone", "_branched_from": "gone"}', False),
    ],
)
def test_which_sessions_without_a_parent_are_shown(
    db: SessionDB, raw: RawFile, config: str | None, *, shown: bool
) -> None:
    raw.session("a", model_config=config)
    assert listed(db) == (["a"] if shown else [])


def test_a_branch_whose_parent_is_missing_stays_visible(db: SessionDB, raw: RawFile) -> None:
    raw.session("branch", parent_session_id="gone", model_config='{"_branched_from": "gone"}')
    assert listed(db) == ["branch"]


def test_a_branch_that_was_compressed_is_one_line(db: SessionDB, raw: RawFile) -> None:
    marker = '{"_branched_from": "origin"}'
    raw.session("origin")
    raw.session("branch", parent_session_id="origin", model_config=marker, started_at=STARTED + 1, **COMPRESSED)
    raw.session("tip", parent_session_id="branch", model_config=marker, started_at=STARTED + 2)
    lines = db.list_sessions_rich()
    assert [(row["id"], row.get("_lineage_root_id")) for row in lines] == [("tip", "branch"), ("origin", None)]


@pytest.mark.parametrize("parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}])
@pytest.mark.parametrize("reason", [None, "compression", "branched"])
def test_cycles_of_parents_end(db: SessionDB, raw: RawFile, parents: dict[str, str], reason: str | None) -> None:
    raw.session("root")
    for session_id, parent in parents.items():
        raw.session(session_id, parent_session_id=parent, end_reason=reason, ended_at=STARTED + 5 if reason else None)
    assert listed(db) == ["root"]
    assert set(listed(db, include_children=True)) == {"root", *parents}
    assert set(listed(db, include_pinned=True, limit=0)) == set()


# -- filters ----------------------------------------------------------------------------------------------------


@pytest.fixture
def several(db: SessionDB, raw: RawFile) -> None:
    """Sessions `s0` to `s5`, each started later than the one before."""
    rows: list[dict[str, Any]] = [
        {"source": "cli", "cwd": "/proj/a", "message_count": 0},
        {"source": "telegram", "session_key": "k", "cwd": "/proj/a/sub", "message_count": 3},
        {"source": "cli", "cwd": "/proj/ab", "message_count": 5, "pinned": 1},
        {"source": "CLI", "cwd": "C:\\work\\a", "archived": 1, "message_count": 9},
        {"source": "cron", "cwd": "/proj/a_b%c/x", "archived": 1, "pinned": 1},
        {"source": "", "cwd": "/PROJ/A/Upper", "message_count": 1},
    ]
    for number, columns in enumerate(rows):
        raw.session(f"s{number}", started_at=STARTED + number, **columns)


@on_one_engine
@pytest.mark.usefixtures("several")
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, "5210"),
        ({"source": "cli"}, "20"),
        ({"source": "Cli"}, ""),
        ({"source": ""}, "5210"),
        ({"source": "telegram", "sources": ["cli"]}, "1"),
        ({"sources": ["cli", "telegram"]}, "210"),
        ({"sources": []}, "5210"),
        ({"sources": ["nobody"]}, ""),
        ({"sources": {"cli"}}, "20"),
        ({"exclude_sources": ["cli"]}, "51"),
        ({"exclude_sources": []}, "5210"),
        ({"sources": ["cli", "telegram"], "exclude_sources": ("cli",)}, "1"),
        ({"session_key": "k"}, "1"),
        ({"session_key": "K"}, ""),
        ({"session_key": ""}, ""),
        ({"min_message_count": 0}, "5210"),
        ({"min_message_count": 1}, "521"),
        ({"min_message_count": 4}, "2"),
        ({"min_message_count": -3}, "5210"),
        ({"include_archived": True}, "543210"),
        ({"archived_only": True}, "43"),
        ({"archived_only": True, "include_archived": False}, "43"),
        ({"source": "cron", "archived_only": True}, "4"),
        ({"cwd_prefix": "/proj/a"}, "510"),
        ({"cwd_prefix": "/proj/a/"}, "510"),
        ({"cwd_prefix": "/proj/a//"}, "510"),
        ({"cwd_prefix": "/proj"}, "5210"),
        ({"cwd_prefix": "/PROJ/A"}, "51"),
        ({"cwd_prefix": "/"}, ""),
        ({"cwd_prefix": ""}, "5210"),
        ({"cwd_prefix": "/proj/_"}, ""),
        ({"cwd_prefix": "/proj/%"}, ""),
        ({"cwd_prefix": "/proj/a_b%c", "include_archived": True}, "4"),
        ({"cwd_prefix": "C:\\work", "include_archived": True}, "3"),
        ({"cwd_prefix": "c:\\work", "include_archived": True}, "3"),
        ({"limit": 2}, "52"),
        ({"limit": 2, "offset": 1}, "21"),
        ({"limit": 0}, ""),
        ({"limit": -1}, "5210"),
        ({"limit": -1, "offset": 2}, "10"),
        ({"limit": 2, "offset": -4}, "52"),
        ({"offset": 9}, ""),
        ({"limit": 1, "include_pinned": True}, "52"),
        ({"limit": 0, "include_pinned": True}, "2"),
        ({"limit": 3, "include_pinned": True}, "521"),
        ({"limit": 0, "include_pinned": True, "include_archived": True}, "42"),
        ({"limit": 0, "include_pinned": True, "archived_only": True}, "4"),
        ({"limit": 0, "include_pinned": True, "source": "telegram"}, ""),
        ({"limit": 1, "include_pinned": True, "min_message_count": 5}, "2"),
    ],
)
def test_filters_and_pages(db: SessionDB, arguments: dict[str, Any], found: str) -> None:
    assert listed(db, **arguments) == [f"s{digit}" for digit in found]


@pytest.mark.usefixtures("several")
def test_a_page_is_as_long_as_asked_by_default_twenty(db: SessionDB, raw: RawFile) -> None:
    for number in range(30):
        raw.session(f"more{number}", started_at=STARTED - number)
    assert len(listed(db)) == 20


def test_arguments_by_position(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", source="cron", cwd="/w")
    raw.session("b", source="cli", cwd="/w")
    assert [row["id"] for row in db.list_sessions_rich(None, ["cron", "cli"], ["cli"], "/w", 5, 0)] == ["a"]


def test_no_limit_at_all_is_all(db: SessionDB, raw: RawFile) -> None:
    for number in range(30):
        raw.session(f"more{number}", started_at=STARTED - number)
    assert len(db.list_sessions_rich(limit=None)) == 30


@pytest.mark.parametrize("name", ["sources", "exclude_sources"])
def test_a_bare_text_is_no_list_of_sources(db: SessionDB, name: str) -> None:
    with pytest.raises(InvalidValue, match="cli"):
        db.list_sessions_rich(**{name: "cli"})  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", [{"order_by_last_active": True}, {"id_query": "x"}, {"search_query": "x"}])
def test_what_is_not_available_yet_is_said(db: SessionDB, argument: dict[str, Any]) -> None:
    with pytest.raises(NotBuilt, match=next(iter(argument))):
        db.list_sessions_rich(**argument)


def test_what_is_not_available_yet_may_be_left_at_its_default(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    assert listed(db, order_by_last_active=False, id_query=None, search_query="") == ["a"]
