"""Every filter filters, on every route; wrong ones raise before anything is looked at."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SearchFilter, SessionDB
from hermes_store.errors import InvalidValue
from tests.search.helpers import EVERY_ROUTE, ROUTES, alike, behind_the_back, flag, found, mark_pending, on_every_route
from tests.support.drivers import Engine


@pytest.fixture
def filled(db: SessionDB) -> SessionDB:
    """Ids 1-4: user and assistant on cli, telegram, cron; 4 is a tool's."""
    for session, source in (("s1", "cli"), ("s2", "telegram"), ("s3", "cron")):
        db.create_session(session, source)
    db.append_message("s1", "user", EVERY_ROUTE)
    db.append_message("s2", "assistant", EVERY_ROUTE)
    db.append_message("s3", "user", EVERY_ROUTE)
    db.append_message("s1", "tool", f"{EVERY_ROUTE} output", tool_name="terminal")
    return db


def seen(db: SessionDB, query: str, **options: Any) -> set[int]:
    # Substrings of tool messages are in no index: the tests of roles say what is found of them.
    return set(found(db, query, **options)) - {4}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {1, 2, 3}),
        ({"source_filter": ["cli"]}, {1}),
        ({"source_filter": ["cli", "cron"]}, {1, 3}),
        ({"source_filter": ("cli", "nowhere")}, {1}),
        ({"source_filter": ["CLI"]}, set()),
        ({"source_filter": ["nowhere"]}, set()),
        ({"source_filter": []}, set()),
        ({"source_filter": None}, {1, 2, 3}),
        ({"exclude_sources": ["cli"]}, {2, 3}),
        ({"exclude_sources": ["cli", "cron", "telegram"]}, set()),
        ({"exclude_sources": []}, {1, 2, 3}),
        ({"exclude_sources": ["nowhere"]}, {1, 2, 3}),
        ({"source_filter": ["cli", "cron"], "exclude_sources": ["cron"]}, {1}),
        ({"role_filter": ["user"]}, {1, 3}),
        ({"role_filter": ["assistant"]}, {2}),
        ({"role_filter": ["system"]}, set()),
        ({"role_filter": []}, {1, 2, 3}),
        ({"role_filter": None}, {1, 2, 3}),
        ({"role_filter": ["user"], "source_filter": ["cron"]}, {3}),
        ({"role_filter": ["assistant"], "exclude_sources": ["telegram"]}, set()),
    ],
    ids=str,
)
def test_sources_and_roles(filled: SessionDB, options: dict[str, Any], expected: set[int]) -> None:
    assert on_every_route(lambda query: seen(filled, query, **options)) == alike(expected)


def test_any_collection_of_names_is_taken(filled: SessionDB) -> None:
    for names in (("cli",), {"cli"}, iter(["cli"]), {"cli": 1}.keys()):
        assert seen(filled, "docker", source_filter=names) == {1}


@pytest.mark.parametrize("query", ["docker", "部署失败", "部署", '"部署失败 output"'])
def test_tool_messages_are_found_when_they_are_asked_for(filled: SessionDB, query: str) -> None:
    assert found(filled, query, role_filter=["tool"]) == [4]
    assert 4 in found(filled, query, role_filter=["user", "tool"])


@pytest.mark.parametrize(
    ("flags", "hidden"), [((1, 0), False), ((0, 0), True), ((0, 1), False), ((1, 1), False)], ids=str
)
def test_undone_rows_are_hidden_and_archived_ones_are_not(
    filled: SessionDB, path: Path, engine: Engine, flags: tuple[int, int], hidden: bool
) -> None:
    flag(path, engine, [2], active=flags[0], compacted=flags[1])
    assert on_every_route(lambda query: 2 in found(filled, query)) == alike(not hidden)
    assert on_every_route(lambda query: 2 in found(filled, query, include_inactive=True)) == alike(True)


def test_filters_hold_while_a_rebuild_is_pending(filled: SessionDB, path: Path, engine: Engine) -> None:
    mark_pending(path, engine)
    for query in ROUTES.values():
        assert seen(filled, query) == {1, 2, 3}
        assert seen(filled, query, source_filter=["cli"], role_filter=["user"]) == {1}
        assert seen(filled, query, source_filter=[]) == set()
        assert seen(filled, query, exclude_sources=["cli"], limit=1, sort="oldest") == {2}


def test_a_session_without_its_row_gives_no_hit(filled: SessionDB, path: Path, engine: Engine) -> None:
    with behind_the_back(path, engine) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("DELETE FROM sessions WHERE id = 's2'")
    assert on_every_route(lambda query: 2 in found(filled, query, limit=-1)) == alike(False)


@pytest.mark.parametrize("query", ["", "docker", "zzz", None])
def test_fields_are_checked_before_the_query(filled: SessionDB, query: str) -> None:
    with pytest.raises(TypeError, match="must be a collection of field names, not a string"):
        filled.search_messages(query, fields="id")
    with pytest.raises(ValueError, match=r"^unknown search result field\(s\): body, zeal$"):
        filled.search_messages(query, fields=["zeal", "id", "body"])
    with pytest.raises(InvalidValue):
        filled.search_messages(query, fields=["content"])


def test_filters_of_the_repository_are_those_of_the_interface(filled: SessionDB) -> None:
    with filled.store.reader() as reader:
        wanted = SearchFilter(sources=("cli", "cron"), exclude_sources=("cron",), roles=("user",), sort="newest")
        assert [hit.id for hit in reader.search.messages("docker", wanted)] == [1]
        assert reader.search.messages("docker", SearchFilter(sources=())) == []
