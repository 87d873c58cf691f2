"""Phrases, stars and operators mean the same whoever answers: words, substrings, scan."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.search.helpers import found, lame_driver, mark_pending, say
from tests.support.drivers import Engine


@pytest.mark.parametrize(
    "query",
    [
        "docker AND OR kubernetes",
        "docker AND AND kubernetes",
        "AND NOT docker",
        "OR OR kubernetes",
        "docker AND NOT podman",
        "docker AND OR",
    ],
)
def test_malformed_operators_still_find_the_message(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, "docker and kubernetes deployment notes")
    assert found(db, query) == [wanted]


def test_stars_and_quotes_work_beside_cjk(db: SessionDB) -> None:
    (wanted,) = say(db, "今天讨论秃发应对方案\uff0c機能を追加、검색기능")
    say(db, "今天没有", "機械 검사")
    assert {query: found(db, query) for query in STARRED} == {query: [wanted] for query in STARRED}


STARRED = [
    "秃发*",
    "秃发应对*",
    '"秃发"*',
    "秃发* 方案*",
    "機能*",
    "검색*",
    "검색기능*",
    "*秃发",
    "**方案**",
    '"应对方案"',
    '"機能を追加"*',
]


# One set of messages per route; `a`, `b`, `c` stand for terms that take that route.
ROUTES = {
    "words": {"a": "docker", "b": "podman", "c": "kubectl"},
    "substrings": {"a": "部署失败", "b": "超时重试", "c": "大别山项目"},
    "scan": {"a": "部署", "b": "超时", "c": "项目"},
    "mixed": {"a": "docker", "b": "部署失败", "c": "超时重试"},
}
MEANINGS: list[tuple[str, list[str]]] = [
    ("{a}", ["a", "ab", "abc"]),
    ("{a} {b}", ["ab", "abc"]),
    ("{a} AND {b}", ["ab", "abc"]),
    ("{a} OR {b}", ["a", "b", "ab", "abc"]),
    ("{a} NOT {b}", ["a"]),
    ("{a} AND NOT {b}", ["a"]),
    ("{a} OR {b} NOT {c}", ["a", "b", "ab", "abc"]),
    ("{a} {b} NOT {c}", ["ab"]),
    ("{b} OR {a} {c}", ["b", "ab", "abc"]),
    ('"{a} {b}"', ["ab", "abc"]),
    ('"{b} {a}"', []),
    ("{a}*", ["a", "ab", "abc"]),
    ('"{a}"* {b}*', ["ab", "abc"]),
    ("AND {a}", ["a", "ab", "abc"]),
    ("NOT {c}", ["abc"]),
    ("{a} OR", ["a", "ab", "abc"]),
    ("{a} AND OR {c}", ["a", "ab", "abc"]),
    ("{a} OR AND {c}", ["abc"]),
    ('{a} "{c}', ["abc"]),
    ("({a} AND {b})", ["ab", "abc"]),
]


def spoil_nothing(path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store as it should be."""


def lose_substrings(path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    lame_driver(monkeypatch, has_trigram=False)


def lose_indexes(path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    lame_driver(monkeypatch, has_trigram=False, has_fts5=False)


def interrupt_rebuild(path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_pending(path, engine)


@pytest.mark.parametrize("spoil", [spoil_nothing, lose_substrings, lose_indexes, interrupt_rebuild])
@pytest.mark.parametrize("route", list(ROUTES))
def test_a_query_means_the_same_on_every_route(
    engine: Engine,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    route: str,
    spoil: Callable[[Path, Engine, pytest.MonkeyPatch], None],
) -> None:
    words = ROUTES[route]
    with SessionDB(path) as db:
        names = {}
        for name in ("a", "b", "ab", "abc"):
            (row_id,) = say(db, " ".join(words[letter] for letter in name))
            names[row_id] = name
    spoil(path, engine, monkeypatch)
    with SessionDB(path) as db:
        answers = {
            query: sorted(
                (names[row_id] for row_id in found(db, query.format(**words))), key=["a", "b", "ab", "abc"].index
            )
            for query, _ in MEANINGS
        }
    assert answers == dict(MEANINGS)


def test_a_prefix_finds_longer_words_and_a_word_without_star_does_not(db: SessionDB) -> None:
    plain, longer = say(db, "a deploy happened", "the deployment happened")
    assert found(db, "deploy") == [plain]
    assert sorted(found(db, "deploy*")) == [plain, longer]


@pytest.mark.parametrize(
    "query", ["and", "or", "not", "near", "docker and kubernetes", "AND", "NEAR(docker kubernetes)"]
)
def test_operators_in_small_letters_are_words(db: SessionDB, query: str) -> None:
    (without,) = say(db, "docker kubernetes")
    assert without not in found(db, query)
