"""Retention: ended sessions go after a time without activity (rule DELETE-3)."""

import inspect
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import InvalidValue, NotBuilt
from tests.sessions.raw import RawFile, on_one_engine
from tests.support.clocks import FakeClock

DAY = 86_400.0


@pytest.fixture
def now(db: SessionDB) -> float:
    return db.store.clock.now()


def old(raw: RawFile, session_id: str, now: float, days: float = 100, **columns: Any) -> None:
    """A session that began and ended so many days ago."""
    moment = now - days * DAY
    raw.session(session_id, **{"started_at": moment, "ended_at": moment, "end_reason": "x", **columns})


def left(raw: RawFile) -> set[str]:
    return {row[0] for row in raw.rows("SELECT id FROM sessions")}


def test_the_default_is_ninety_days(db: SessionDB, raw: RawFile, now: float) -> None:
    old(raw, "gone", now, 91)
    old(raw, "kept", now, 89)
    raw.message("gone", timestamp=now - 91 * DAY)
    assert db.prune_sessions() == 1
    assert left(raw) == {"kept"}
    assert raw.count("messages") == 0
    assert db.prune_sessions() == 0


@on_one_engine
@pytest.mark.parametrize(
    ("columns", "message", "kept"),
    [
        ({}, None, False),
        ({"ended_at": None, "end_reason": None}, None, True),
        ({"ended_at": None}, None, True),
        ({"end_reason": None}, None, False),
        ({"pinned": 1}, None, True),
        ({"archived": 1}, None, True),
        ({"pinned": 1, "archived": 1}, None, True),
        ({"title": "name"}, None, False),
        ({"message_count": None}, None, False),
        ({"parent_session_id": "parent"}, None, False),
        ({}, 1, True),
        ({}, 50, False),
        ({"started_at": 5.0}, 1, True),
        ({"last_activity_at": 4e9}, None, False),
        ({"ended_at": 4e9}, None, False),
    ],
)
def test_who_is_kept(
    db: SessionDB, raw: RawFile, now: float, columns: dict[str, Any], message: float | None, *, kept: bool
) -> None:
    raw.session("parent")
    old(raw, "a", now, **columns)
    if message is not None:
        raw.message("a", timestamp=now - 99 * DAY)
        raw.message("a", timestamp=now - message * DAY, active=0)
        raw.message("a", timestamp=now - 98 * DAY)
    assert db.prune_sessions(30) == int(not kept)
    assert left(raw) == ({"a", "parent"} if kept else {"parent"})


@pytest.mark.parametrize(("days", "gone"), [(0, {"a", "b"}), (0.5, {"a", "b"}), (1.5, {"b"}), (2.5, set())])
def test_fractions_of_days(store: Store, raw: RawFile, clock: FakeClock, days: float, gone: set[str]) -> None:
    for number, session_id in enumerate("ab", start=1):
        old(raw, session_id, clock.now(), number)
    assert set(store.write(lambda unit: unit.prune(older_than_days=days))) == gone
    assert left(raw) == {"a", "b"} - gone


def test_exactly_as_old_is_not_older(store: Store, raw: RawFile, clock: FakeClock) -> None:
    old(raw, "a", clock.now(), 30)
    assert store.write(lambda unit: unit.prune(older_than_days=30)) == []
    clock.advance(1)
    assert store.write(lambda unit: unit.prune(older_than_days=30)) == ["a"]


@pytest.mark.parametrize(
    ("source", "gone"), [(None, {"a", "b"}), ("", {"a", "b"}), ("cli", {"a"}), ("CLI", set()), ("x", set())]
)
def test_the_source_is_exact(db: SessionDB, raw: RawFile, now: float, source: str | None, gone: set[str]) -> None:
    old(raw, "a", now, source="cli")
    old(raw, "b", now, source="cron")
    assert db.prune_sessions(30, source) == len(gone)
    assert left(raw) == {"a", "b"} - gone


# -- conversations ----------------------------------------------------------------------------------------------


def chain(raw: RawFile, now: float, **changed: dict[str, Any]) -> None:
    """Three old segments of one conversation, and an old session beside it."""
    old(raw, "root", now, end_reason="compression", **changed.get("root", {}))
    old(raw, "mid", now, **{"end_reason": "compression", "parent_session_id": "root", **changed.get("mid", {})})
    old(raw, "tip", now, **{"parent_session_id": "mid", **changed.get("tip", {})})
    old(raw, "beside", now)


def test_an_old_conversation_goes_whole(db: SessionDB, raw: RawFile, now: float) -> None:
    chain(raw, now)
    assert db.prune_sessions(30) == 4
    assert left(raw) == set()


@pytest.mark.parametrize("segment", ["root", "mid", "tip"])
@pytest.mark.parametrize("keep", [{"pinned": 1}, {"archived": 1}, {"source": "cron"}, {"message": 1}])
@on_one_engine
def test_one_segment_keeps_its_conversation(
    db: SessionDB, raw: RawFile, now: float, segment: str, keep: dict[str, Any]
) -> None:
    columns = {name: value for name, value in keep.items() if name != "message"}
    chain(raw, now, **{segment: columns})
    if "message" in keep:
        raw.message(segment, timestamp=now)
    assert db.prune_sessions(30, "cli") == 1
    assert left(raw) == {"root", "mid", "tip"}


def test_a_live_tip_keeps_its_conversation(db: SessionDB, raw: RawFile, now: float) -> None:
    chain(raw, now, tip={"ended_at": None, "end_reason": None})
    assert db.prune_sessions(30) == 1
    assert left(raw) == {"root", "mid", "tip"}


def test_children_of_other_kinds_stay_without_a_parent(db: SessionDB, raw: RawFile, now: float) -> None:
    old(raw, "a", now)
    raw.session("branch", parent_session_id="a", model_config='{"_branched_from": "a"}', started_at=now)
    raw.session("plain", parent_session_id="a", started_at=now)
    assert db.prune_sessions(30) == 1
    assert raw.rows("SELECT id, parent_session_id FROM sessions ORDER BY id") == [("branch", None), ("plain", None)]


def test_cycles_of_segments_go_too(db: SessionDB, raw: RawFile, now: float) -> None:
    old(raw, "a", now, end_reason="compression", parent_session_id="b")
    old(raw, "b", now, end_reason="compression", parent_session_id="a")
    old(raw, "c", now, end_reason="compression", parent_session_id="c")
    assert db.prune_sessions(30) == 3
    assert left(raw) == set()


def test_many_sessions_go_in_one_call(db: SessionDB, raw: RawFile, now: float) -> None:
    raw.run(
        (
            "INSERT INTO sessions (id, source, started_at, ended_at) VALUES (?, 'cli', ?, ?)",
            (f"s{number}", now - 100 * DAY, now - 100 * DAY),
        )
        for number in range(3000)
    )
    assert db.prune_sessions(30) == 3000
    assert left(raw) == set()


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [None, -1, -0.001, float("nan")])
def test_no_number_of_days_is_refused(db: SessionDB, raw: RawFile, now: float, days: float | None) -> None:
    old(raw, "a", now)
    with pytest.raises(InvalidValue, match="older_than_days"):
        db.prune_sessions(days)
    assert left(raw) == {"a"}


PLANNED_FILTERS = [
    name
    for name, parameter in inspect.signature(SessionDB.prune_sessions).parameters.items()
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY
]


@on_one_engine
@pytest.mark.parametrize("name", PLANNED_FILTERS)
def test_a_filter_that_is_not_available_yet_is_refused_and_nothing_removed(
    db: SessionDB, raw: RawFile, now: float, name: str
) -> None:
    old(raw, "a", now)
    values: tuple[Any, ...] = (0, 1, "x", False)
    for value in values:
        with pytest.raises(NotBuilt, match=name):
            db.prune_sessions(30, **{name: value})
    assert left(raw) == {"a"}


def test_unknown_filters_are_refused(db: SessionDB) -> None:
    with pytest.raises(TypeError):
        db.prune_sessions(30, bogus=1)  # type: ignore[call-arg]
