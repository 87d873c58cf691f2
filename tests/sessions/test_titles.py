"""Naming sessions and finding them by name (rules TITLE-1 to TITLE-5)."""

from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.database import load_driver
from hermes_store.errors import DuplicateTitle, SessionNotFound
from tests.sessions.raw import STARTED, RawFile, on_one_engine


def test_a_title_is_stored_clean(db: SessionDB) -> None:
    db.create_session("a", "cli")
    assert db.set_session_title("a", "  my\ttitle\u200b \ud800") is True
    assert db.get_session_title("a") == "my title \ufffd"


@on_one_engine
@pytest.mark.parametrize("empty", [None, "", "   ", "\u200b"])
def test_an_empty_title_takes_the_name_away(db: SessionDB, empty: str | None) -> None:
    db.create_session("a", "cli")
    db.set_session_title("a", "name")
    assert db.set_session_title("a", empty) is True
    assert db.get_session_title("a") is None


def test_titles_of_nobody(db: SessionDB) -> None:
    assert db.set_session_title("nobody", "name") is False
    assert db.set_session_title("nobody", None) is False
    assert db.get_session_title("nobody") is None
    assert db.get_session_title(None) is None  # type: ignore[arg-type]


@on_one_engine
@pytest.mark.parametrize("session_id", ["a", "nobody"])
@pytest.mark.parametrize(("title", "error"), [("x" * 101, ValueError), (5, TypeError)])
def test_a_bad_title_is_refused_for_known_and_unknown_sessions(
    db: SessionDB, session_id: str, title: Any, error: type[Exception]
) -> None:
    db.create_session("a", "cli")
    db.set_session_title("a", "before")
    with pytest.raises(error):
        db.set_session_title(session_id, title)
    assert db.get_session_title("a") == "before"


@pytest.mark.parametrize("target", ["b", "nobody"])
def test_a_taken_title_names_its_owner_and_changes_nothing(db: SessionDB, target: str) -> None:
    for session_id in ("a", "b"):
        db.create_session(session_id, "cli")
    db.set_session_title("a", 'name\'s "own"')
    db.set_session_title("b", "other")
    with pytest.raises(DuplicateTitle) as taken:
        db.set_session_title(target, ' name\'s  "own" ')
    assert isinstance(taken.value, ValueError)
    assert str(taken.value) == "Title 'name's \"own\"' is already in use by session a"
    assert (taken.value.title, taken.value.owner_id) == ('name\'s "own"', "a")
    assert (db.get_session_title("a"), db.get_session_title("b")) == ('name\'s "own"', "other")


@pytest.mark.parametrize(
    "state", [{"archived": 1}, {"ended_at": 5.0, "end_reason": "x"}, {"parent_session_id": "root"}]
)
def test_archived_ended_and_child_sessions_hold_their_titles_too(
    db: SessionDB, raw: RawFile, state: dict[str, Any]
) -> None:
    raw.session("root")
    raw.session("a", title="name", **state)
    raw.session("b")
    with pytest.raises(DuplicateTitle):
        db.set_session_title("b", "name")


def test_titles_are_compared_exactly(db: SessionDB) -> None:
    for session_id, title in (("a", "Name"), ("b", "name"), ("c", "Näme"), ("d", "Na\u0308me")):
        db.create_session(session_id, "cli")
        assert db.set_session_title(session_id, title) is True
        assert db.get_session_title(session_id) == title


def test_the_owner_may_set_its_title_again(db: SessionDB) -> None:
    db.create_session("a", "cli")
    db.set_session_title("a", "name")
    assert db.set_session_title("a", "name") is True
    assert db.get_session_title("a") == "name"


def test_any_number_of_sessions_may_be_untitled_but_the_file_refuses_a_second_holder(
    db: SessionDB, raw: RawFile
) -> None:
    raw.session("a", title="name")
    raw.session("b")
    raw.session("c")
    with pytest.raises(load_driver(raw.driver).module.IntegrityError):
        raw.change("b", title="name")
    assert db.get_session_title("b") is None


def test_a_unit_names_sessions_and_raises_for_unknown_ones(store: Store) -> None:
    store.write(lambda unit: unit.create_session("a", "cli"))
    store.write(lambda unit: unit.set_title("a", "name"))
    with pytest.raises(SessionNotFound):
        store.write(lambda unit: unit.set_title("nobody", "x"))
    with store.reader() as reader:
        assert reader.titles.find("a") == "name"


# -- moving along a compressed conversation ---------------------------------------------------------------------


def chain(raw: RawFile, *, reason: str = "compression", **tip: Any) -> None:
    raw.session("root", ended_at=5.0, end_reason=reason)
    raw.session("mid", parent_session_id="root", ended_at=6.0, end_reason="compression")
    raw.session("tip", parent_session_id="mid", **tip)


@pytest.mark.parametrize("holder", ["root", "mid"])
def test_a_title_moves_to_a_later_segment(db: SessionDB, raw: RawFile, holder: str) -> None:
    chain(raw)
    raw.change(holder, title="Base")
    assert db.set_session_title("tip", "Base") is True
    assert (db.get_session_title(holder), db.get_session_title("tip")) == (None, "Base")


@pytest.mark.parametrize("target", ["root", "mid"])
def test_a_title_never_moves_back(db: SessionDB, raw: RawFile, target: str) -> None:
    chain(raw)
    raw.change("tip", title="Base")
    with pytest.raises(DuplicateTitle):
        db.set_session_title(target, "Base")
    assert db.get_session_title("tip") == "Base"


@pytest.mark.parametrize("reason", ["branched", "session_reset", None])
def test_a_title_does_not_cross_another_kind_of_edge(db: SessionDB, raw: RawFile, reason: str) -> None:
    chain(raw, reason=reason)
    raw.change("root", title="Base")
    with pytest.raises(DuplicateTitle):
        db.set_session_title("tip", "Base")


@on_one_engine
@pytest.mark.parametrize(
    "columns",
    [
        {"model_config": '{"_branched_from": "mid"}'},
        {"model_config": '{"_delegate_from": "mid"}'},
        {"source": "tool"},
    ],
)
def test_branches_delegates_and_tool_runs_do_not_take_a_title_over(
    db: SessionDB, raw: RawFile, columns: dict[str, Any]
) -> None:
    chain(raw, **columns)
    raw.change("mid", title="Base")
    with pytest.raises(DuplicateTitle):
        db.set_session_title("tip", "Base")


def test_a_title_moves_in_a_cycle_of_segments_and_the_walk_ends(db: SessionDB, raw: RawFile) -> None:
    raw.session("a", parent_session_id="b", ended_at=5.0, end_reason="compression", title="Base")
    raw.session("b", parent_session_id="a", ended_at=5.0, end_reason="compression")
    assert db.set_session_title("b", "Base") is True
    assert (db.get_session_title("a"), db.get_session_title("b")) == (None, "Base")


# -- finding ----------------------------------------------------------------------------------------------------


def titled(raw: RawFile, *titles: str) -> None:
    """Sessions `s0`, `s1`, ... with these titles, each started later than the one before."""
    for number, title in enumerate(titles):
        raw.session(f"s{number}", title=title, started_at=STARTED + number)


@on_one_engine
@pytest.mark.parametrize(
    ("titles", "asked", "found"),
    [
        (["proj", "proj #3", "proj #2"], "proj", "s2"),
        (["proj #2", "proj"], "proj", "s0"),
        (["only #4"], "only", "s0"),
        (["only #4"], "only #4", "s0"),
        (["exact"], "exact", "s0"),
        (["exact"], "Exact", None),
        (["proj #"], "proj", "s0"),
        (["proj #abc"], "proj", "s0"),
        (["proj#2"], "proj", None),
        (["teXst #2"], "te_st", None),
        (["te_st #2"], "te_st", "s0"),
        (["100% #2"], "100%", "s0"),
        (["a\\b #2"], "a\\b", "s0"),
        (["project #2"], "proj", None),
        (["PROJ #2"], "proj", "s0"),
        (["Ärger #2"], "ärger", "s0"),
        (["ПРОЕКТ #2"], "проект", "s0"),
        (["straße #2"], "STRASSE", "s0"),
        (["Ωmega #2"], "ωMEGA", "s0"),
        (["部署 #2"], "部署", "s0"),
        (["cafe\u0301 #2"], "caf\u00e9", "s0"),
        (["caf\u00e9 #2"], "CAFE\u0301", "s0"),
        (["a"], "", None),
        (["a"], "nobody", None),
    ],
)
def test_what_a_title_means(db: SessionDB, raw: RawFile, titles: list[str], asked: str, found: str | None) -> None:
    titled(raw, *titles)
    assert db.resolve_session_by_title(asked) == found


@on_one_engine
@pytest.mark.parametrize(
    ("titles", "base", "following"),
    [
        ([], "fresh", "fresh"),
        ([], "fresh #7", "fresh"),
        (["solo"], "solo", "solo #2"),
        (["solo", "solo #2", "solo #9"], "solo #2", "solo #10"),
        (["only #4"], "only", "only #5"),
        (["x #2 #3"], "x", "x #4"),
        (["x #2 #3"], "x #2 #3", "x #2 #4"),
        (["Proj #9"], "proj", "proj #10"),
        (["Proj"], "proj", "proj"),
        (["x #abc"], "x", "x #2"),
        (["te_st", "teXst #7"], "te_st", "te_st #2"),
        (["ПРОЕКТ #9"], "проект", "проект #10"),
        (["cafe\u0301 #9"], "caf\u00e9", "caf\u00e9 #10"),
        (["a"], "", ""),
    ],
)
def test_the_next_title(db: SessionDB, raw: RawFile, titles: list[str], base: str, following: str) -> None:
    titled(raw, *titles)
    assert db.get_next_title_in_lineage(base) == following


def test_the_next_title_is_not_measured(db: SessionDB, raw: RawFile) -> None:
    titled(raw, "x" * 98)
    assert db.get_next_title_in_lineage("x" * 98) == "x" * 98 + " #2"
    with pytest.raises(ValueError, match="Title too long"):
        db.set_session_title("s0", db.get_next_title_in_lineage("x" * 98))


def test_a_next_title_can_be_given_at_once(db: SessionDB) -> None:
    for number in range(4):
        db.create_session(f"s{number}", "cli")
        db.set_session_title(f"s{number}", db.get_next_title_in_lineage("work"))
    assert [db.get_session_title(f"s{number}") for number in range(4)] == ["work", "work #2", "work #3", "work #4"]


def test_no_title_has_no_successor(db: SessionDB) -> None:
    with pytest.raises(TypeError):
        db.get_next_title_in_lineage(None)  # type: ignore[arg-type]
