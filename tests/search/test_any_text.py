"""No text that a person can type makes a search fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes_store import SearchFilter, SessionDB, Store
from hermes_store.errors import EmptyQuery
from hermes_store.fts.query import parse
from tests.search.helpers import say
from tests.search.test_query_plan import TEXTS
from tests.support.drivers import Engine


@pytest.fixture
def filled(engine: Engine, path: Path) -> Iterator[Store]:
    with SessionDB(path) as db:
        say(db, "docker and kubernetes", "今天部署docker失败", 'quoted "text" and \\ slashes', "nul\0inside", "🎉")
        say(db, [{"type": "text", "text": "多模态 quokka"}])
        yield db.store


@given(st.lists(TEXTS, min_size=5, max_size=20))
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@example(["\ud800", "docker\ud800", "\udfff部署", '"docker \ud800"', "\0", "''", "x" * 5000])
def test_a_search_answers_or_says_that_the_query_is_empty(filled: Store, queries: list[str]) -> None:
    with filled.reader() as reader:
        for query in queries:
            try:
                hits = reader.search.messages(query)
            except EmptyQuery:
                assert parse(query) == ()
            else:
                assert parse(query) != ()
                assert len(hits) <= 6


@pytest.mark.parametrize("query", ["docker\ud800", '"docker\udc00"', "今天部署\ud800", "部署 \ud800x"])
def test_a_lone_surrogate_is_looked_for_as_it_would_be_stored(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, f"say {query.strip(chr(34))} now")
    assert [hit["id"] for hit in db.search_messages(query)] == [wanted]


@pytest.mark.parametrize("query", ["", " ", "\u3000", "*", "()", '""', "AND", "\0", "🎉"])
def test_an_empty_query_has_a_name_below_and_is_an_empty_answer_above(db: SessionDB, query: str) -> None:
    say(db, "docker 🎉")
    with db.store.reader() as reader, pytest.raises(EmptyQuery):
        reader.search.messages(query, SearchFilter())
    assert db.search_messages(query) == []


def test_a_missing_query_is_an_empty_answer(db: SessionDB) -> None:
    say(db, "docker")
    assert db.search_messages(None) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query",
    [
        "docker" * 2000,
        '"' * 10_001,
        "docker " * 2000,
        "docker OR " * 2000,
        "部署 " * 3000,
        "部署失败 " * 3000,
        "(" * 10_000,
    ],
)
def test_ten_thousand_characters_and_more_are_answered(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, "docker 部署失败")
    assert [hit["id"] for hit in db.search_messages(query)] in ([], [wanted])


@pytest.mark.parametrize("query", ["docker " * 2000, "docker OR " * 2000, "部署 " * 3000, "部署失败 " * 3000])
def test_an_endless_repetition_finds_what_one_finds(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, "docker 部署失败")
    assert [hit["id"] for hit in db.search_messages(query)] == [wanted]
