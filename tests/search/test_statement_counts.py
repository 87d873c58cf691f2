"""How many statements the hot calls run: few, and as many for one row as for a hundred."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from hermes_store.fts.keeper import knows_flush
from tests.search.helpers import lame_driver, on_every_route, say
from tests.support.drivers import Engine
from tests.support.statements import StatementLog, log_statements

MANY = 80


class Counted:
    """A store and the log of its statements."""

    def __init__(self, db: SessionDB, log: StatementLog) -> None:
        self.db = db
        self._log = log

    def statements(self, call: Callable[[], Any]) -> list[str]:
        """What a call runs, without transactions and what the search indexes do within."""
        self._log.clear()
        call()
        own = [text for text in self._log.without_transactions if "'main'.'messages_fts" not in text]
        # SQLite logs a statement again at each step of a trigger that it fires.
        return [text for place, text in enumerate(own) if place == 0 or text != own[place - 1]]

    def verbs(self, call: Callable[[], Any]) -> list[str]:
        return [text.split()[0] for text in self.statements(call)]

    def transactions(self, call: Callable[[], Any]) -> list[str]:
        self._log.clear()
        call()
        words = [text.split()[0] for text in self._log.statements]
        return [word for word in words if word in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")]


@pytest.fixture
def counted(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    with log_statements(monkeypatch) as log, SessionDB(path) as db:
        yield Counted(db, log)


@pytest.fixture
def flushes(counted: Counted) -> list[str]:
    """Each of the two indexes writes what it holds back before COMMIT, where the library can be told to."""
    return ["INSERT"] * 2 if knows_flush(counted.db.store.driver) else []


def converse(db: SessionDB, session: str, messages: int, text: str = "docker 今天部署失败") -> None:
    if db.get_session(session) is None:
        db.create_session(session, "cli")

    def body(unit: Any) -> None:
        for number in range(messages):
            unit.append(session, "assistant" if number % 2 else "user", f"{text} {number}")

    db.store.write(body)


# -- writing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, MANY])
@pytest.mark.parametrize(
    "fields",
    [{}, {"tool_calls": [{"id": "c"}]}, {"content": [{"type": "text", "text": "x"}]}, {"content": "x" * 100_000}],
    ids=["plain", "calls", "parts", "long"],
)
def test_an_append_asks_for_the_lock_and_the_end_stores_and_counts(
    counted: Counted, before: int, fields: dict[str, Any], flushes: list[str]
) -> None:
    converse(counted.db, "s", before)

    def append() -> None:
        counted.db.append_message("s", "user", **fields)

    assert counted.verbs(append) == ["SELECT", "SELECT", "INSERT", "UPDATE", *flushes]
    assert counted.transactions(append) == ["BEGIN", "COMMIT"]
    session = counted.db.get_session("s")
    assert session is not None
    assert session["message_count"] == before + 2


def test_a_broken_counter_costs_two_statements_more_once(counted: Counted, flushes: list[str]) -> None:
    say(counted.db, "one")
    counted.db.store.write(
        lambda unit: unit.orm.connection().exec_driver_sql("UPDATE sessions SET message_count = NULL")
    )

    def append() -> None:
        counted.db.append_message("s", "user", "x")

    assert counted.verbs(append) == ["SELECT", "SELECT", "INSERT", "UPDATE", "SELECT", "UPDATE", *flushes]
    assert counted.verbs(append) == ["SELECT", "SELECT", "INSERT", "UPDATE", *flushes]


# -- reading ------------------------------------------------------------------------------------------------

READS: dict[str, tuple[Callable[[SessionDB], Any], int]] = {
    "get_session": (lambda db: db.get_session("s"), 1),
    "get_messages": (lambda db: db.get_messages("s"), 1),
    "get_messages, a page": (lambda db: db.get_messages("s", limit=10, offset=2), 1),
    "get_messages, inactive too": (lambda db: db.get_messages("s", include_inactive=True), 1),
    "conversation": (lambda db: db.get_messages_as_conversation("s"), 1),
    "conversation, repaired": (lambda db: db.get_messages_as_conversation("s", repair_alternation=True), 1),
    "conversation with ancestors": (lambda db: db.get_messages_as_conversation("s", include_ancestors=True), 2),
    "export_session": (lambda db: db.export_session("s"), 2),
}


@pytest.mark.parametrize("messages", [1, MANY])
def test_reading_a_session_takes_the_same_statements_whatever_its_length(counted: Counted, messages: int) -> None:
    converse(counted.db, "s", messages)

    def count(call: Callable[[SessionDB], Any]) -> int:
        return len(counted.statements(lambda: call(counted.db)))

    counts = {name: count(call) for name, (call, _) in READS.items()}
    assert counts == {name: expected for name, (_, expected) in READS.items()}


@pytest.mark.parametrize("length", [2, 6])
def test_reading_a_lineage_takes_one_statement_a_session_and_one_more(counted: Counted, length: int) -> None:
    for number in range(length):
        parent = f"s{number - 1}" if number else None
        counted.db.create_session(f"s{number}", "cli", parent_session_id=parent)
        say(counted.db, f"part {number}", session=f"s{number}")
        if number < length - 1:
            counted.db.end_session(f"s{number}", "compression")
    read: list[Any] = []

    def call() -> None:
        read[:] = counted.db.get_messages_as_conversation(f"s{length - 1}", include_ancestors=True)

    assert len(counted.statements(call)) == 1 + length
    assert len(read) == length


# -- listing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sessions", [1, 12])
@pytest.mark.parametrize(
    "options", [{}, {"source": "cli"}, {"include_children": True}, {"min_message_count": 1}], ids=str
)
def test_a_list_takes_three_statements_whatever_its_length(
    counted: Counted, sessions: int, options: dict[str, Any]
) -> None:
    for number in range(sessions):
        say(counted.db, "hello", session=f"s{number}")
    shown: list[Any] = []

    def call() -> None:
        shown[:] = counted.db.list_sessions_rich(limit=100, **options)

    assert len(counted.statements(call)) == 3
    assert len(shown) == sessions


@pytest.mark.parametrize("conversations", [1, 5])
@pytest.mark.parametrize("segments", [2, 4])
def test_a_list_of_compressed_conversations_takes_two_more(counted: Counted, conversations: int, segments: int) -> None:
    for number in range(conversations):
        for segment in range(segments):
            name, parent = f"c{number}_{segment}", f"c{number}_{segment - 1}" if segment else None
            counted.db.create_session(name, "cli", parent_session_id=parent)
            say(counted.db, "hello", session=name)
            if segment < segments - 1:
                counted.db.end_session(name, "compression")
    shown: list[Any] = []

    def call() -> None:
        shown[:] = counted.db.list_sessions_rich(limit=100)

    assert len(counted.statements(call)) == 5
    assert {each["id"] for each in shown} == {f"c{number}_{segments - 1}" for number in range(conversations)}


# -- searching ----------------------------------------------------------------------------------------------

# The statements of a search with hits: capability, rank, dress, neighbours, texts.
SEARCHES = {"words": 5, "substrings": 5, "scan": 5, "parts of words": 6}


@pytest.mark.parametrize("hits", [1, MANY])
def test_a_search_takes_the_same_statements_for_one_hit_and_for_eighty(counted: Counted, hits: int) -> None:
    for session in range(4):
        converse(counted.db, f"s{session}", hits // 4 if session else hits - 3 * (hits // 4))
    shown: list[Any] = []

    def count(query: str, **options: Any) -> int:
        def search() -> None:
            shown[:] = counted.db.search_messages(query, limit=MANY, **options)

        counts = len(counted.statements(search))
        assert len(shown) == hits
        return counts

    assert on_every_route(count) == SEARCHES
    assert on_every_route(lambda query: count(query, sort="newest", include_inactive=True)) == SEARCHES
    filters = {"source_filter": ["cli", "cron"], "exclude_sources": ["cron"], "role_filter": ["user", "assistant"]}
    assert on_every_route(lambda query: count(query, **filters)) == SEARCHES
    without_context = {route: expected - 2 for route, expected in SEARCHES.items()}
    assert on_every_route(lambda query: count(query, fields=["id", "snippet"])) == without_context


def test_a_search_without_hits_takes_fewer(counted: Counted) -> None:
    converse(counted.db, "s", 5)
    expected = {"zebra": 3, "zz": 2, "斑马鱼": 2, "斑马": 2, "": 0, "***": 1}

    def count(query: str) -> int:
        return len(counted.statements(lambda: counted.db.search_messages(query)))

    assert {query: count(query) for query in expected} == expected


def test_a_search_without_indexes_takes_five(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lame_driver(monkeypatch, has_fts5=False, has_trigram=False)
    with log_statements(monkeypatch) as log, SessionDB(path) as db:
        converse(db, "s", MANY)
        assert len(Counted(db, log).statements(lambda: db.search_messages("docker", limit=MANY))) == 5


@pytest.mark.parametrize("names", [1, 5000])
def test_no_statement_grows_with_the_number_of_names_in_a_filter(counted: Counted, names: int) -> None:
    converse(counted.db, "s", 3)
    sources = [f"source{number}" for number in range(names)] + ["cli"]
    shown: list[Any] = []

    def call() -> None:
        shown[:] = counted.db.search_messages("docker", source_filter=sources, exclude_sources=sources[:-1])

    assert len(counted.statements(call)) == 5
    assert len(shown) == 3
