"""Which hit comes first, and what a page holds."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from tests.search.helpers import EVERY_ROUTE, alike, flag, found, on_every_route, say
from tests.support.drivers import Engine


def test_the_best_match_comes_first(db: SessionDB) -> None:
    say(db, "cat" + " dog" * 20, "cat " * 5 + "dog dog", "cat", "cat dog", "bird cat cat cat")
    assert found(db, "cat") == [2, 5, 3, 4, 1]


def test_equal_matches_come_in_a_fixed_order(db: SessionDB) -> None:
    ids = say(db, *[EVERY_ROUTE] * 10)
    assert on_every_route(lambda query: found(db, query) in (ids, ids[::-1])) == alike(True)


@pytest.mark.parametrize(
    ("sort", "backwards"),
    [("newest", True), (" Newest ", True), ("NEWEST", True), ("oldest", False), ("Oldest\n", False)],
)
def test_sorting_follows_the_order_in_which_messages_were_stored(db: SessionDB, sort: str, backwards: bool) -> None:
    # The clock goes back, stands still, and jumps.
    ids = [
        say(db, f"{EVERY_ROUTE} {'and ' * number}", timestamp=at)[0]
        for number, at in enumerate([50.0, 10.0, 10.0, 99.0, 1.0])
    ]
    assert on_every_route(lambda query: found(db, query, sort=sort)) == alike(ids[::-1] if backwards else ids)


@pytest.mark.parametrize("sort", [None, "", "bogus", "rank", 5, object()])
def test_any_other_sort_means_the_best_match_first(db: SessionDB, sort: Any) -> None:
    say(db, "cat dog dog dog", "cat cat", "bird cat dog")
    assert found(db, "cat", sort=sort) == found(db, "cat") == [2, 3, 1]


@pytest.mark.parametrize("sort", [None, "newest", "oldest"])
def test_pages_follow_each_other_without_gap_or_overlap(db: SessionDB, sort: str | None) -> None:
    say(db, *[f"{EVERY_ROUTE} {'x ' * (number % 3)}" for number in range(11)])

    def pages(query: str) -> list[list[int]]:
        return [found(db, query, sort=sort, limit=4, offset=offset) for offset in (0, 4, 8, 12)]

    def cut(query: str) -> list[list[int]]:
        everything = found(db, query, sort=sort, limit=100)
        return [everything[begin : begin + 4] for begin in (0, 4, 8, 12)]

    assert on_every_route(lambda query: [len(page) for page in cut(query)]) == alike([4, 4, 3, 0])
    assert on_every_route(pages) == on_every_route(cut)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 20),
        ({"limit": 5}, 5),
        ({"limit": 0}, 0),
        ({"limit": -1}, 25),
        ({"limit": 1000}, 25),
        ({"limit": 5, "offset": -3}, 5),
        ({"limit": -1, "offset": 20}, 5),
        ({"limit": 5, "offset": 100}, 0),
    ],
    ids=str,
)
def test_limits_and_offsets(db: SessionDB, options: dict[str, int], expected: int) -> None:
    say(db, *[EVERY_ROUTE] * 25)
    assert on_every_route(lambda query: len(set(found(db, query, **options)))) == alike(expected)


def test_a_negative_offset_is_none(db: SessionDB) -> None:
    say(db, *[EVERY_ROUTE] * 5)
    negative = on_every_route(lambda query: found(db, query, limit=3, offset=-3))
    assert negative == on_every_route(lambda query: found(db, query, limit=3))


def test_a_page_beyond_the_words_does_not_turn_to_substrings(db: SessionDB) -> None:
    say(db, "docker one", "docker two", *["dockers many"] * 4)
    assert found(db, "docker", limit=2) == [1, 2]
    assert found(db, "docker", limit=2, offset=2) == []


def test_a_page_is_filled_after_the_last_filter(db: SessionDB, path: Path, engine: Engine) -> None:
    db.create_session("cron", "cron")
    kept = []
    for number in range(30):
        if number % 6:
            db.append_message("cron", "user", EVERY_ROUTE)
        else:
            kept += say(db, EVERY_ROUTE)
    undone = say(db, *[EVERY_ROUTE] * 10)
    flag(path, engine, undone, active=0, compacted=0)
    assert on_every_route(lambda query: sorted(found(db, query, limit=5, exclude_sources=["cron"]))) == alike(kept)
