"""What a line of a list says: preview, last activity, unread, and the tip of a compressed conversation."""

from typing import Any

import pytest

from hermes_store import SessionDB
from tests.sessions.raw import STARTED, RawFile, on_one_engine, only

PREFIX = "[IMPORTANT: The user has invoked the "
LOADED = " The full skill content is loaded below.]"
INSTRUCTION = "The user has provided the following instruction alongside the skill invocation: "
COMPRESSED = {"end_reason": "compression", "ended_at": STARTED + 10}

# -- preview ----------------------------------------------------------------------------------------------------


@on_one_engine
@pytest.mark.parametrize(
    ("content", "preview"),
    [
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "..."),
        ("x" * 200, "x" * 60 + "..."),
        (" \n lead\r\nnew line", "lead  new line"),
        ("   " + "y" * 62, "y" * 60),
        ("部" * 70, "部" * 60 + "..."),
        ("", ""),
        ([{"type": "text", "text": "x"}], ""),
        ({"a": 1}, ""),
        (b"bytes", ""),
        (f'{PREFIX}"plan" skill.{LOADED}\n\nbody\n\n{INSTRUCTION}fix the\ntitle leak', "/plan — fix the title leak"),
        (f'{PREFIX}"plan" skill.{LOADED}\n\nbody', "/plan"),
        (f'{PREFIX}"/a /b" skill bundle,{LOADED}\nUser instruction: x', "/a /b"),
        (f'{PREFIX}"plan" skill.{LOADED} {"部" * 2000} {INSTRUCTION}the end', "/plan — the end"),
        (f'{PREFIX}"plan" skill.{LOADED} {INSTRUCTION}{"w" * 2000}', f"/plan — {'w' * 52}..."),
        (f'{PREFIX.lower()}"plan" skill.{LOADED}', f'{PREFIX.lower()}"plan" skill.{LOADED}'[:60] + "..."),
    ],
)
def test_the_preview_of_a_first_message(db: SessionDB, content: Any, preview: str) -> None:
    db.create_session("a", "cli")
    db.append_message("a", "user", content)
    assert only(db.list_sessions_rich())["preview"] == preview


def test_the_preview_is_of_the_first_user_message_that_has_content(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    raw.message("a", role="assistant", content="assistant")
    raw.message("a", content=None)
    raw.message("a", content="first", active=0, timestamp=STARTED + 50)
    raw.message("a", content="earlier by the clock", timestamp=STARTED - 50)
    assert only(db.list_sessions_rich())["preview"] == "first"


def test_an_empty_first_message_is_not_skipped(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    raw.message("a", content="")
    raw.message("a", content="second")
    assert only(db.list_sessions_rich())["preview"] == ""


# -- last activity and unread -----------------------------------------------------------------------------------


@on_one_engine
@pytest.mark.parametrize(
    ("heartbeat", "messages", "last_active"),
    [
        (None, [], 0.0),
        (None, [5.0, 9.0, 7.0], 9.0),
        (20.0, [], 20.0),
        (20.0, [9.0], 20.0),
        (8.0, [9.0], 9.0),
        (None, [-5.0], -5.0),
        (-9.0, [], -9.0),
    ],
)
def test_the_later_of_heartbeat_and_newest_message(
    db: SessionDB, raw: RawFile, heartbeat: float | None, messages: list[float], last_active: float
) -> None:
    raw.session("a", last_activity_at=None if heartbeat is None else STARTED + heartbeat)
    for moment in messages:
        raw.message("a", timestamp=STARTED + moment)
    assert only(db.list_sessions_rich())["last_active"] == STARTED + last_active


def test_rows_that_are_not_live_count_as_activity(db: SessionDB, raw: RawFile) -> None:
    raw.session("a")
    raw.message("a", timestamp=STARTED + 5, active=0)
    assert only(db.list_sessions_rich())["last_active"] == STARTED + 5


@pytest.mark.parametrize(
    ("read", "unread"), [(None, False), (0.0, True), (STARTED + 4, True), (STARTED + 5, False), (STARTED + 6, False)]
)
def test_a_session_is_unread_after_something_happened(
    db: SessionDB, raw: RawFile, read: float | None, *, unread: bool
) -> None:
    raw.session("a", last_read_at=read)
    raw.message("a", timestamp=STARTED + 5)
    assert only(db.list_sessions_rich())["unread"] is unread


def test_a_new_message_makes_a_read_session_unread(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", last_read_at=STARTED + 5)
    assert only(db.list_sessions_rich())["unread"] is False
    db.append_message("a", "user", "x", timestamp=STARTED + 6)
    assert only(db.list_sessions_rich())["unread"] is True


# -- the tip of a conversation ----------------------------------------------------------------------------------

FROM_TIP = (
    "id", "ended_at", "end_reason", "message_count", "tool_call_count", "title", "model", "system_prompt", "cwd",
    "git_branch", "git_repo_root",
)  # fmt: skip


def columns(name: str, number: int) -> dict[str, Any]:
    """A value of its own in every column that tests compare."""
    texts = ("title", "model", "system_prompt", "cwd", "git_branch", "git_repo_root", "user_id", "session_key",
             "chat_id", "display_name", "billing_provider", "profile_name")  # fmt: skip
    numbers = ("message_count", "tool_call_count", "input_tokens", "api_call_count", "estimated_cost_usd")
    return {
        **{column: f"{column} of {name}" for column in texts},
        **{column: float(number) if column.endswith("usd") else number for column in numbers},
    }


def test_a_compressed_conversation_is_one_line_with_what_its_tip_knows(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", source="telegram", last_read_at=STARTED + 7, pinned=1, **COMPRESSED, **columns("root", 1))
    middle = {"parent_session_id": "root", "end_reason": "compression", "ended_at": STARTED + 20}
    raw.session("middle", started_at=STARTED + 11, **middle, **columns("middle", 2))
    raw.session(
        "tip", parent_session_id="middle", started_at=STARTED + 21, ended_at=STARTED + 30, end_reason="user_exit",
        archived=1, source="cli", last_activity_at=STARTED + 29, **columns("tip", 3),
    )  # fmt: skip
    raw.message("root", content="first question", timestamp=STARTED + 1)
    raw.message("tip", content="later question", timestamp=STARTED + 22)
    root, tip = db.get_session("root"), db.get_session("tip")
    assert root is not None
    assert tip is not None
    line = only(db.list_sessions_rich())
    assert line == {
        **root,
        **{name: tip[name] for name in FROM_TIP},
        "preview": "later question",
        "last_active": STARTED + 29,
        "unread": True,
        "_lineage_root_id": "root",
    }
    assert list(line)[-1] == "_lineage_root_id"


def test_the_title_is_the_tips_also_when_it_has_none(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", title="name", **COMPRESSED)
    raw.session("tip", parent_session_id="root")
    assert only(db.list_sessions_rich())["title"] is None


def test_a_compressed_session_without_a_continuation_is_shown_as_it_is(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", title="name", **COMPRESSED)
    raw.session("tool", parent_session_id="root", source="tool")
    line = only(db.list_sessions_rich())
    assert (line["id"], line["title"]) == ("root", "name")
    assert "_lineage_root_id" not in line


@pytest.mark.parametrize("arguments", [{"project_compression_tips": False}, {"include_children": True}])
def test_raw_lines_on_request(db: SessionDB, raw: RawFile, arguments: dict[str, Any]) -> None:
    raw.session("root", **COMPRESSED)
    raw.session("tip", parent_session_id="root", started_at=STARTED + 1)
    lines = db.list_sessions_rich(**arguments)
    assert [row["id"] for row in lines] == (["tip", "root"] if "include_children" in arguments else ["root"])
    assert not [row for row in lines if "_lineage_root_id" in row]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"source": "telegram"}, True),
        ({"source": "cli"}, False),
        ({"min_message_count": 5}, True),
        ({"min_message_count": 6}, False),
        ({"archived_only": True}, False),
        ({"limit": 0, "include_pinned": True}, True),
    ],
)
def test_filters_look_at_the_root(db: SessionDB, raw: RawFile, arguments: dict[str, Any], *, shown: bool) -> None:
    raw.session("root", source="telegram", message_count=5, pinned=1, **COMPRESSED)
    raw.session("tip", source="cli", message_count=9, archived=1, parent_session_id="root")
    assert [row["id"] for row in db.list_sessions_rich(**arguments)] == (["tip"] if shown else [])


@on_one_engine
@pytest.mark.parametrize(
    ("first", "second", "tip"),
    [
        ({**COMPRESSED}, {}, "first"),
        ({}, {"end_reason": "ws_orphan_reap", "ended_at": STARTED + 9, "started_at": STARTED + 9}, "first"),
        ({}, {"started_at": STARTED + 1}, "second"),
        ({"last_message": STARTED + 50}, {"started_at": STARTED + 1}, "first"),
        ({"last_activity_at": STARTED + 50}, {"started_at": STARTED + 1}, "first"),
        ({"last_activity_at": STARTED + 50}, {"last_message": STARTED + 60}, "second"),
        ({}, {}, "second"),
        ({"last_message": STARTED + 5}, {"last_message": STARTED + 5, "started_at": STARTED - 1}, "first"),
        ({}, {"started_at": STARTED + 1, "source": "tool"}, "first"),
        ({}, {"started_at": STARTED + 1, "model_config": '{"_delegate_from": "root"}'}, "first"),
        ({}, {"started_at": STARTED + 1, "model_config": '{"_delegate_from": "elsewhere"}'}, "second"),
    ],
)
def test_of_several_continuations(
    db: SessionDB, raw: RawFile, first: dict[str, Any], second: dict[str, Any], tip: str
) -> None:
    raw.session("root", **COMPRESSED)
    for name, columns_of_it in (("first", first), ("second", second)):
        row = dict(columns_of_it)
        moment = row.pop("last_message", None)
        raw.session(name, parent_session_id="root", **row)
        if moment is not None:
            raw.message(name, timestamp=moment)
    assert only(db.list_sessions_rich())["id"] == tip


def test_a_continuation_may_begin_before_its_parent_ended(db: SessionDB, raw: RawFile) -> None:
    raw.session("root", **COMPRESSED)
    raw.session("tip", parent_session_id="root", started_at=STARTED - 100)
    assert only(db.list_sessions_rich())["id"] == "tip"


def test_a_long_chain_shows_its_last_segment(db: SessionDB, raw: RawFile) -> None:
    raw.session("s0", **COMPRESSED)
    for number in range(1, 130):
        raw.session(f"s{number}", parent_session_id=f"s{number - 1}", **(COMPRESSED if number < 129 else {}))
    line = only(db.list_sessions_rich())
    assert (line["id"], line["_lineage_root_id"]) == ("s129", "s0")


def test_a_conversation_that_runs_into_a_cycle_is_shown(db: SessionDB, raw: RawFile) -> None:
    branch = '{"_branched_from": "gone"}'
    raw.session("root", parent_session_id="c2", model_config=branch, **COMPRESSED)
    raw.session("c1", parent_session_id="root", **COMPRESSED)
    raw.session("c2", parent_session_id="c1", **COMPRESSED)
    assert db.list_sessions_rich() == []
    assert len(db.list_sessions_rich(include_children=True)) == 3


def test_many_conversations_are_projected_at_once(db: SessionDB, raw: RawFile) -> None:
    for number in range(25):
        raw.session(f"root{number:02}", started_at=STARTED + number, **COMPRESSED)
        raw.session(f"tip{number:02}", parent_session_id=f"root{number:02}", started_at=STARTED + 1000 - number)
    lines = db.list_sessions_rich(limit=10, offset=5)
    assert [(row["_lineage_root_id"], row["id"]) for row in lines] == [
        (f"root{number:02}", f"tip{number:02}") for number in range(19, 9, -1)
    ]
