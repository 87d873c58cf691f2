"""A store whose indexes are missing, incomplete or not to be written still finds everything."""

import dataclasses
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.fts.query import Route
from tests.search.helpers import behind_the_back, found, lame_driver, mark_pending, say
from tests.support.drivers import Engine, indexes_past_nul

TEXT = "今天部署docker失败 quokka"
QUERIES = ["quokka", "部署docker失败", "今天部署", "部署", "天", "quokka 部署", '"失败 quokka"', "quok*"]
PARTS = [*QUERIES, "docker", "uokk"]


def route(db: SessionDB, query: str) -> Route:
    with db.store.reader() as reader:
        return reader.search.plan(query).route


@pytest.mark.parametrize("read_only", [False, True])
def test_without_fts5_a_scan_answers(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    lame_driver(monkeypatch, has_fts5=False, has_trigram=False)
    with SessionDB(path) as db:
        say(db, "else")
        (wanted,) = say(db, TEXT)
    with SessionDB(path, read_only=read_only) as db:
        assert {query: route(db, query) for query in PARTS} == dict.fromkeys(PARTS, Route.SCAN)
        assert {query: found(db, query) for query in PARTS} == {query: [wanted] for query in PARTS}


@pytest.mark.parametrize("read_only", [False, True])
def test_without_the_trigram_tokenizer_words_and_scan_answer(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    lame_driver(monkeypatch, has_trigram=False)
    with SessionDB(path) as db:
        say(db, "else")
        (wanted,) = say(db, TEXT)
    with SessionDB(path, read_only=read_only) as db:
        assert Route.SUBSTRINGS not in {route(db, query) for query in QUERIES}
        assert {query: found(db, query) for query in QUERIES} == {query: [wanted] for query in QUERIES}


@pytest.mark.parametrize("read_only", [False, True])
def test_while_a_rebuild_is_pending_a_scan_finds_everything(engine: Engine, path: Path, read_only: bool) -> None:
    with SessionDB(path) as db:
        (old,) = say(db, TEXT)
    mark_pending(path, engine)
    with SessionDB(path) as db:
        (new,) = say(db, TEXT)
    with SessionDB(path, read_only=read_only) as db:
        assert {query: route(db, query) for query in PARTS} == dict.fromkeys(PARTS, Route.SCAN)
        assert {query: found(db, query) for query in PARTS} == {query: [new, old] for query in PARTS}


def test_a_handle_notices_that_another_process_began_and_ended_a_rebuild(
    db: SessionDB, path: Path, engine: Engine
) -> None:
    (wanted,) = say(db, TEXT)
    mark_pending(path, engine)
    assert route(db, "quokka") is Route.SCAN
    assert found(db, "quokka") == [wanted]
    with behind_the_back(path, engine) as raw:
        for index in ("messages_fts", "messages_fts_trigram"):
            raw.execute(f"INSERT INTO {index}({index}) VALUES ('rebuild')")
        raw.execute("DELETE FROM state_meta WHERE key LIKE 'fts_rebuild_%'")
    assert route(db, "quokka") is Route.WORDS
    assert found(db, "quokka") == [wanted]


def test_a_handle_that_only_reads_searches(engine: Engine, path: Path) -> None:
    with SessionDB(path) as db:
        (wanted,) = say(db, TEXT)
    with SessionDB(path, read_only=True) as db:
        assert {query: found(db, query) for query in PARTS} == {query: [wanted] for query in PARTS}


def test_a_dropped_trigger_heals_at_the_next_open(engine: Engine, path: Path) -> None:
    with SessionDB(path) as db:
        say(db, "else")
    with behind_the_back(path, engine) as raw:
        for name in ("messages_fts_insert", "messages_fts_trigram_insert"):
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("INSERT INTO messages(session_id, role, content, timestamp) VALUES ('s', 'user', ?, 1.0)", (TEXT,))
    with Store.open(path) as store, store.reader() as reader:
        answers = {query: [hit.id for hit in reader.search.messages(query)] for query in PARTS}
    assert answers == {query: [2] for query in PARTS}


def test_an_empty_store_finds_nothing(db: SessionDB) -> None:
    assert [db.search_messages(query) for query in (*QUERIES, "zzz")] == [[]] * (len(QUERIES) + 1)


@pytest.mark.usefixtures("whole_substrings")
def test_the_plan_can_be_read(db: SessionDB) -> None:
    with db.store.reader() as reader:
        shown = dataclasses.asdict(reader.search.plan("docker 部署失败"))
    assert shown["route"] is Route.SUBSTRINGS
    assert shown["reason"]


def test_cjk_text_is_scanned_for_where_the_index_lacks_structured_messages(db: SessionDB, engine: Engine) -> None:
    with db.store.reader() as reader:
        chosen = reader.search.plan("部署失败").route
    assert chosen is (Route.SUBSTRINGS if indexes_past_nul(engine.driver) else Route.SCAN)
