"""What stands beside a hit: the message before it, itself, the one after."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from tests.search.helpers import EVERY_ROUTE, alike, flag, on_every_route, say
from tests.support.drivers import Engine


def contexts(db: SessionDB, query: str, **options: Any) -> list[list[str]]:
    return [[each["content"] for each in hit["context"]] for hit in db.search_messages(query, **options)]


def test_before_hit_and_after_with_their_roles(db: SessionDB) -> None:
    say(db, "far before", "before")
    say(db, EVERY_ROUTE, role="assistant")
    say(db, "after", role="tool", tool_name="terminal")
    say(db, "far after")
    expected = [
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": EVERY_ROUTE},
        {"role": "tool", "content": "after"},
    ]
    assert on_every_route(lambda query: db.search_messages(query, fields=["context"])) == alike([{"context": expected}])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([EVERY_ROUTE], [EVERY_ROUTE]),
        ([EVERY_ROUTE, "after"], [EVERY_ROUTE, "after"]),
        (["before", EVERY_ROUTE], ["before", EVERY_ROUTE]),
    ],
)
def test_the_ends_of_a_session(db: SessionDB, texts: list[str], expected: list[str]) -> None:
    say(db, *texts)
    assert on_every_route(lambda query: contexts(db, query)) == alike([expected])


def test_other_sessions_stay_out(db: SessionDB) -> None:
    for number, text in enumerate(["one", EVERY_ROUTE, "three"]):
        say(db, f"stranger {number}", session="other")
        say(db, text)
    say(db, "last stranger", session="other")
    assert on_every_route(lambda query: contexts(db, query)) == alike([["one", EVERY_ROUTE, "three"]])


def test_neighbours_follow_the_order_in_which_messages_were_stored(db: SessionDB) -> None:
    for text, at in (("first", 90.0), (EVERY_ROUTE, 10.0), ("third", 10.0), ("fourth", 1.0)):
        say(db, text, timestamp=at)
    assert on_every_route(lambda query: contexts(db, query)) == alike([["first", EVERY_ROUTE, "third"]])


def test_texts_are_cut_after_two_hundred_characters(db: SessionDB) -> None:
    long = EVERY_ROUTE + "字" * 500
    say(db, "前" * 500, long, "y" * 200)
    assert on_every_route(lambda query: contexts(db, query)) == alike([["前" * 200, long[:200], "y" * 200]])


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ([{"type": "text", "text": "部署"}, {"type": "image_url", "image_url": {"url": "x"}}], "部署"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": ""}, {"type": "text", "text": "two"}], "one two"),
        ([{"type": "image_url", "image_url": {"url": "x"}}], "[multimodal content]"),
        ([], "[multimodal content]"),
        ({"type": "text", "text": "lonely"}, ""),
        (None, ""),
        ("", ""),
        ("plain", "plain"),
        ([{"type": "text", "text": "长" * 300}], "长" * 200),
    ],
    ids=["list", "parts", "picture", "empty list", "object", "nothing", "empty", "text", "long"],
)
def test_structured_neighbours_show_what_a_person_reads(db: SessionDB, content: Any, shown: str) -> None:
    say(db, content, EVERY_ROUTE, content)
    assert contexts(db, "docker") == [[shown, EVERY_ROUTE, shown]]


def test_a_structured_hit_shows_its_text(db: SessionDB) -> None:
    say(db, [{"type": "text", "text": "a quokka 多模态"}])
    assert contexts(db, "quokka") == [["a quokka 多模态"]]


def test_undone_neighbours_are_passed_over(db: SessionDB, path: Path, engine: Engine) -> None:
    say(db, "kept before")
    before = say(db, "undone 1", "undone 2")
    say(db, EVERY_ROUTE)
    after = say(db, "undone 3")
    say(db, "kept after")
    flag(path, engine, before + after, active=0, compacted=0)
    assert on_every_route(lambda query: contexts(db, query)) == alike([["kept before", EVERY_ROUTE, "kept after"]])


def test_archived_neighbours_are_shown(db: SessionDB, path: Path, engine: Engine) -> None:
    before = say(db, "archived")
    say(db, EVERY_ROUTE, "after")
    flag(path, engine, before, active=0, compacted=1)
    assert on_every_route(lambda query: contexts(db, query)) == alike([["archived", EVERY_ROUTE, "after"]])


def test_each_of_many_hits_has_its_own_neighbours(db: SessionDB) -> None:
    for number in range(30):
        say(db, f"docker {number}", session=f"s{number % 3}")
    hits = db.search_messages("docker", limit=30)
    assert len(hits) == 30
    for hit in hits:
        number = hit["id"] - 1
        around = [each for each in (number - 3, number, number + 3) if 0 <= each < 30]
        assert [each["content"] for each in hit["context"]] == [f"docker {each}" for each in around]
