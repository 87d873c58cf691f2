"""What a store tells of its work, and what it never says."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import EventLog, Events, SessionDB, Settings, Store, Unit, connect
from hermes_store.errors import HermesStoreError, StoreLocked
from tests.database.helpers import ActingClock, Stop, second_connection, settings_of
from tests.support.drivers import Engine

SECRET = "wombat-7314"


class Heard(Events):
    """Counts what it is told, and keeps the last of each kind."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.last: dict[str, dict[str, Any]] = {}

    def _note(self, name: str, facts: dict[str, Any]) -> None:
        self.times[name] += 1
        self.last[name] = facts

    def committed(self, **facts: Any) -> None:
        self._note("committed", facts)

    def waited(self, **facts: Any) -> None:
        self._note("waited", facts)

    def retried(self, **facts: Any) -> None:
        self._note("retried", facts)

    def slow_statement(self, **facts: Any) -> None:
        self._note("slow_statement", facts)

    def checkpointed(self, **facts: Any) -> None:
        self._note("checkpointed", facts)

    def repaired(self, **facts: Any) -> None:
        self._note("repaired", facts)

    def degraded(self, **facts: Any) -> None:
        self._note("degraded", facts)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watched(engine: Engine, path: Path, heard: Heard, acting: ActingClock, impatient: None) -> Iterator[Store]:
    with Store.open(path, events=heard, clock=acting) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        heard.times.clear()
        yield store


def say(store: Store, text: str = "hello") -> None:
    store.append("a", "user", {"content": text})


def fail(store: Store) -> None:
    def body(unit: Unit) -> None:
        unit.append("a", "user", SECRET)
        raise Stop

    with pytest.raises(Stop):
        store.write(body)


def test_commits_are_told_and_counted(watched: Store, heard: Heard) -> None:
    """EVENT-1 and EVENT-2."""
    before = watched.counters
    say(watched)
    with watched.transaction() as unit:
        unit.append("a", "user", "two")
    fail(watched)
    assert heard.times == {"committed": 2}
    assert heard.last["committed"] == {"waited": 0, "held": 0}
    assert watched.counters.commits == before.commits + 2
    assert watched.counters.rollbacks == before.rollbacks + 1


def test_waiting_is_told_once_it_is_over(watched: Store, heard: Heard, engine: Engine, acting: ActingClock) -> None:
    with second_connection(watched.path, engine) as other:
        other.execute("BEGIN IMMEDIATE")
        acting.during(3, lambda: other.execute("ROLLBACK"))
        say(watched)
    assert heard.times == {"committed": 1, "waited": 1, "retried": 3}
    assert heard.last["waited"]["tries"] == 3
    assert heard.last["waited"]["seconds"] == pytest.approx(sum(acting.slept))
    assert heard.last["retried"]["reason"] == "StoreLocked"
    assert watched.counters.waits == 1
    assert watched.counters.seconds_waited == pytest.approx(sum(acting.slept))


def test_a_wait_in_vain_is_an_error_and_no_event(watched: Store, heard: Heard, engine: Engine) -> None:
    with second_connection(watched.path, engine) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked):
            watched.write(lambda unit: unit.append("a", "user", "x"), patience=1.0)
    assert "waited" not in heard.times
    assert heard.times["retried"] > 1


def test_checkpoints_are_told_where_there_is_a_log(watched: Store, heard: Heard, engine: Engine) -> None:
    for _ in range(120):
        watched.write(lambda unit: unit.meta.set("x", "y"))
    assert heard.times["checkpointed"] == (2 if engine.journal_mode == "wal" else 0)
    if engine.journal_mode == "wal":
        assert heard.last["checkpointed"]["pages"] > 0
        assert heard.last["checkpointed"]["moved"] >= 0


@pytest.mark.parametrize("way", ["rows", "entities"])
def test_slow_statements_are_told_without_their_values(engine: Engine, path: Path, heard: Heard, way: str) -> None:
    with Store.open(path, events=heard, settings=settings_of(engine, slow_statement=0.0)) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        say(store, SECRET)

        def look(unit: Unit) -> None:
            from sqlalchemy import text

            statement = text("SELECT :secret")
            unit.orm.execute(statement, {"secret": SECRET}) if way == "entities" else unit.messages.rows(SECRET)

        store.write(look)
        assert heard.times["slow_statement"] > 3
        assert heard.times["slow_statement"] == store.counters.slow_statements
        assert "SELECT" in heard.last["slow_statement"]["sql"] or "COMMIT" in heard.last["slow_statement"]["sql"]
        assert all(SECRET not in str(facts) for facts in heard.last.values())


def test_nothing_is_slow_by_itself(watched: Store, heard: Heard) -> None:
    say(watched)
    assert "slow_statement" not in heard.times


def test_a_search_that_has_to_scan_is_told(watched: Store, heard: Heard, engine: Engine) -> None:
    say(watched, "docker")
    with second_connection(watched.path, engine) as other:
        other.execute("DELETE FROM messages_fts_data WHERE id = 1")
    with watched.reader() as reader:
        assert len(reader.search.messages("docker")) == 1
    assert heard.times["degraded"] == watched.counters.degraded == 1
    assert heard.last["degraded"]["what"] == "search"


def test_an_observer_that_fails_disturbs_nobody(engine: Engine, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Events):
        def committed(self, *, waited: float, held: float) -> None:
            raise Stop

    with Store.open(path, events=Failing()) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        say(store)
        with store.reader() as reader:
            assert reader.messages.count() == 1
    assert any("an observer of the store failed" in record.message for record in caplog.records)


def test_events_can_go_into_the_log(
    engine: Engine, path: Path, acting: ActingClock, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    """EVENT-3."""
    caplog.set_level(logging.DEBUG, logger="hermes_store.events")
    with Store.open(path, events=EventLog(), clock=acting) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        with second_connection(path, engine) as other:
            other.execute("BEGIN IMMEDIATE")
            acting.during(1, lambda: other.execute("ROLLBACK"))
            say(store, SECRET)
        with second_connection(path, engine) as other:
            other.execute("DELETE FROM messages_fts_data WHERE id = 1")
        say(store, SECRET)
    by_level: dict[int, list[str]] = {}
    for record in caplog.records:
        if record.name == "hermes_store.events":
            by_level.setdefault(record.levelno, []).append(record.getMessage())
    assert any("committed" in text for text in by_level[logging.DEBUG])
    assert any("waited" in text for text in by_level[logging.INFO])
    assert any("repaired" in text for text in by_level[logging.WARNING])
    assert SECRET not in caplog.text


# -- what is never said -----------------------------------------------------------------------------------------


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def broken_append(unit: Unit) -> None:
    unit.append("nobody", "user", SECRET)


def broken_entity(unit: Unit) -> None:
    from hermes_store.models import Message

    unit.orm.add(Message(session_id="nobody", role="user", content=SECRET, timestamp=1.0, active=1))


def broken_sql(unit: Unit) -> None:
    from sqlalchemy import text

    unit.orm.execute(text("INSERT INTO messages(session_id, content) VALUES (:a, :b)"), {"a": "a", "b": SECRET})


def broken_core(unit: Unit) -> None:
    from sqlalchemy import insert

    from hermes_store.models import Message

    unit.connection.sa.execute(insert(Message).values(session_id="a", content=SECRET))


FAILURES: dict[str, Callable[[Unit], object]] = {
    each.__name__: each for each in (broken_append, broken_entity, broken_sql, broken_core)
}


@pytest.mark.parametrize("body", FAILURES.values(), ids=FAILURES)
def test_no_error_and_no_log_says_what_a_message_says(
    store: Store, body: Callable[[Unit], object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store.write(lambda unit: unit.create_session("a", "cli"))
    with pytest.raises(HermesStoreError) as failure:
        store.write(body)
    assert all(SECRET not in str(each) for each in causes(failure.value))
    assert SECRET not in caplog.text


def test_damage_and_locks_do_not_say_it_either(engine: Engine, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with SessionDB(path) as db:
        db.create_session("a", "cli", system_prompt=SECRET)
        db.append_message("a", "user", SECRET, tool_calls=[{"id": SECRET}], api_content=SECRET)
        for index in ("messages_fts", "messages_fts_trigram"):
            with second_connection(path, engine) as other:
                other.execute(f"UPDATE {index}_data SET block = x'FFFFFFFFFFFFFFFF' WHERE id = 10")
            db.search_messages(SECRET)
            db.append_message("a", "user", SECRET)
            db.get_messages_as_conversation("a")
        with pytest.raises(HermesStoreError) as failure:
            db.append_message("nobody", "user", SECRET)
    assert all(SECRET not in str(each) for each in causes(failure.value))
    locker = connect(path, driver=engine.driver)
    locker.execute("BEGIN IMMEDIATE")
    settings: Settings = settings_of(engine, patience=0.0, transcript_patience=0.0)
    with Store.open(path, settings=settings) as store, pytest.raises(StoreLocked) as locked:
        say(store, SECRET)
    locker.close()
    assert all(SECRET not in str(each) for each in causes(locked.value))
    assert SECRET not in caplog.text
