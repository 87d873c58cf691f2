"""Every writing method, alone and in a unit that fails: all of it happens, or nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from hermes_store import NewMessage, NewUsage, SessionDB, Store, Unit
from hermes_store.compat.methods import METHODS
from hermes_store.compat.methods.table import State
from hermes_store.errors import NestedUnit
from hermes_store.models import Session
from hermes_store.operations.sessions import session_values
from hermes_store.repositories import Repositories
from hermes_store.repositories.usage import Route
from tests.database.helpers import STANDARD, Stop, dump, query, second_connection
from tests.support.drivers import Engine


@dataclass(frozen=True)
class Writer:
    """A writing method, a question to the database, and its answer once the method has done its work."""

    name: str
    call: Callable[[Any], object]
    question: str
    answer: object


def message(text: str) -> dict[str, Any]:
    return {**NewMessage("user", {"content": text}, 1.0).values, "session_id": "live"}


def add_entity(unit: Unit) -> None:
    unit.orm.add(Session(id="new", source="cli", started_at=1.0))
    unit.orm.commit()


COUNT_NEW = "SELECT count(*) FROM sessions WHERE id = 'new'"
COUNT_OLD = "SELECT count(*) FROM sessions WHERE id = 'old'"
COUNT_LIVE = "SELECT count(*) FROM sessions WHERE id = 'live'"
COUNT_EMPTY = "SELECT count(*) FROM sessions WHERE id = 'empty'"
ADDED = "SELECT count(*) FROM messages WHERE content = 'added words'"
LIVE_ROWS = "SELECT count(*) FROM messages WHERE session_id = 'live'"
TITLE = "SELECT title FROM sessions WHERE id = 'live'"
REASON = "SELECT end_reason FROM sessions WHERE id = 'live'"
OLD_END = "SELECT ended_at FROM sessions WHERE id = 'old'"
COUNTERS = "SELECT message_count || '/' || tool_call_count FROM sessions WHERE id = 'live'"

USAGE = asdict(NewUsage(input_tokens=7, estimated_cost_usd=0.5, actual_cost_usd=0.0, api_call_count=1))
ROUTE = Route("m", "p", "", "")
TOKENS = "SELECT input_tokens FROM sessions WHERE id = 'live'"
USAGE_ROWS = "SELECT total(input_tokens) FROM session_model_usage WHERE session_id = 'live'"

UNIT_WRITERS = [
    Writer("create_session", lambda unit: unit.create_session("new", "cli"), COUNT_NEW, 1),
    Writer("append", lambda unit: unit.append("live", "user", "added words"), ADDED, 1),
    Writer("set_title", lambda unit: unit.set_title("live", "Other"), TITLE, "Other"),
    Writer("record_usage", lambda unit: unit.record_usage("live", NewUsage(input_tokens=7)), USAGE_ROWS, 7),
    Writer("end_session", lambda unit: unit.end_session("live", "done"), REASON, "done"),
    Writer("clear_messages", lambda unit: unit.clear_messages("live"), LIVE_ROWS, 0),
    Writer("delete_conversation", lambda unit: unit.delete_conversation("live"), COUNT_LIVE, 0),
    Writer("prune", lambda unit: unit.prune(older_than_days=30), COUNT_OLD, 0),
    Writer("orm", add_entity, COUNT_NEW, 1),
    Writer(
        "sessions.create",
        lambda unit: unit.sessions.create(session_values("new", "cli", {}, 1.0)),
        COUNT_NEW,
        1,
    ),
    Writer(
        "sessions.inherit_from_parent",
        lambda unit: unit.sessions.inherit_from_parent("kid"),
        "SELECT cwd FROM sessions WHERE id = 'kid'",
        "/work",
    ),
    Writer("sessions.end", lambda unit: unit.sessions.end("live", "done", 5.0), REASON, "done"),
    Writer("sessions.reopen", lambda unit: unit.sessions.reopen("old"), OLD_END, None),
    Writer("sessions.count_up", lambda unit: unit.sessions.count_up("live", 3, 4), COUNTERS, "5/4"),
    Writer("sessions.set_counts", lambda unit: unit.sessions.set_counts("live", 7, 8), COUNTERS, "7/8"),
    Writer("sessions.delete", lambda unit: unit.sessions.delete(["empty"]), COUNT_EMPTY, 0),
    Writer("messages.insert", lambda unit: unit.messages.insert(message("added words")), ADDED, 1),
    Writer("messages.delete_of", lambda unit: unit.messages.delete_of(["live"]), LIVE_ROWS, 0),
    Writer("usage.add_to_session", lambda unit: unit.usage.add_to_session("live", ROUTE, USAGE), TOKENS, 7),
    Writer("usage.set_on_session", lambda unit: unit.usage.set_on_session("live", ROUTE, USAGE), TOKENS, 7),
    Writer("usage.add_to_row", lambda unit: unit.usage.add_to_row("live", ROUTE, "", USAGE, 1.0), USAGE_ROWS, 7),
    Writer("titles.set", lambda unit: unit.titles.set("live", "Other"), TITLE, "Other"),
    Writer(
        "meta.set",
        lambda unit: unit.meta.set("seeded", "changed"),
        "SELECT value FROM state_meta WHERE key = 'seeded'",
        "changed",
    ),
    Writer(
        "meta.remove",
        lambda unit: unit.meta.remove("seeded"),
        "SELECT count(*) FROM state_meta WHERE key = 'seeded'",
        0,
    ),
]

UNIT_OTHERS = {
    "abandon",
    "finish",
    *(f"sessions.{name}" for name in ("closing", "count", "ended", "existing", "find", "find_row", "get", "page")),
    *(f"sessions.{name}" for name in ("resolve", "rows_of")),
    *(f"messages.{name}" for name in ("active_tool_calls", "count", "count_live", "first_user_texts", "last_times")),
    *(f"messages.{name}" for name in ("of_session", "replay_rows", "rows")),
    *(f"titles.{name}" for name in ("find", "owner", "spelled_otherwise", "variants")),
    *(f"lineage.{name}" for name in ("continuations", "continued_from", "conversation_of", "conversations")),
    *(f"lineage.{name}" for name in ("delegates_of", "root_to_tip")),
    *(f"search.{name}" for name in ("hit_rows", "messages", "plan")),
    *(f"usage.{name}" for name in ("of_session", "route")),
    "locks.live_holder",
    "meta.find",
    # Writes in files alone whose bindings do not go with their session.
    "topics.unbind",
}
"""What reads, or belongs to the doors."""

DB_WRITERS = [
    Writer("create_session", lambda db: db.create_session("new", "cli"), COUNT_NEW, 1),
    Writer("end_session", lambda db: db.end_session("live", "done"), REASON, "done"),
    Writer("reopen_session", lambda db: db.reopen_session("old"), OLD_END, None),
    Writer("set_session_title", lambda db: db.set_session_title("live", "Other"), TITLE, "Other"),
    Writer("update_token_counts", lambda db: db.update_token_counts("live", 7), USAGE_ROWS, 7),
    Writer("append_message", lambda db: db.append_message("live", "user", "added words"), ADDED, 1),
    Writer("clear_messages", lambda db: db.clear_messages("live"), LIVE_ROWS, 0),
    Writer("delete_session", lambda db: db.delete_session("live"), COUNT_LIVE, 0),
    Writer("prune_sessions", lambda db: db.prune_sessions(older_than_days=30), COUNT_OLD, 0),
]

DB_OTHERS = {
    "close",
    "db_path",
    "export_all",
    "export_session",
    # These change the indexes in many units of their own.
    "fts_optimize_available",
    "fts_rebuild_status",
    "fts_rebuild_step",
    "optimize_fts_storage",
    "get_messages",
    "get_messages_as_conversation",
    "get_next_title_in_lineage",
    "get_session",
    "get_session_title",
    "list_sessions_rich",
    # A thread stores what these leave to it, in units of its own.
    "queue_token_counts",
    "flush_token_counts",
    "resolve_session_by_title",
    "sanitize_title",
    "search_messages",
    "store",
}

unit_writers = pytest.mark.parametrize("writer", UNIT_WRITERS, ids=lambda writer: writer.name)
db_writers = pytest.mark.parametrize("writer", DB_WRITERS, ids=lambda writer: writer.name)


def seed(store: Store, engine: Engine) -> None:
    with store.transaction() as unit:
        unit.create_session("old", "cli")
        unit.append("old", "user", "old words", timestamp=1.0)
        unit.end_session("old", "user_exit")
        unit.create_session("live", "cli", cwd="/work")
        unit.append("live", "user", "live question")
        unit.append("live", "assistant", "live answer")
        unit.set_title("live", "Live")
        unit.create_session("empty", "cli")
        unit.create_session("kid", "cli")
        unit.meta.set("seeded", "value")
    with second_connection(store.path, engine) as connection:
        connection.execute("UPDATE sessions SET started_at = 1, ended_at = 2 WHERE id = 'old'")
        connection.execute("UPDATE sessions SET parent_session_id = 'live' WHERE id = 'kid'")


def answer(path: Path, engine: Engine, writer: Writer) -> object:
    found: object = query(path, engine, writer.question)[0][0]
    return found


def through(door: str, store: Store, body: Callable[[Unit], object]) -> None:
    if door == "write":
        store.write(body)
    else:
        with store.transaction() as unit:
            body(unit)


def public(owner: object) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def test_every_public_method_of_a_unit_is_in_the_table(store: Store) -> None:
    rooms = [name for name, member in vars(Repositories).items() if isinstance(member, cached_property)]
    names = public(Unit) - set(rooms)
    with store.reader() as reader:
        for room in rooms:
            names |= {f"{room}.{name}" for name in public(getattr(reader, room))}
    writers = [writer.name for writer in UNIT_WRITERS]
    assert len(writers) == len(set(writers))
    assert names == set(writers) | UNIT_OTHERS
    assert not set(writers) & UNIT_OTHERS


def test_every_method_of_the_drop_in_interface_is_in_the_table() -> None:
    writers = {writer.name for writer in DB_WRITERS}
    assert {method.name for method in METHODS if method.state is State.BUILT} == writers | DB_OTHERS
    assert not writers & DB_OTHERS


@unit_writers
@pytest.mark.parametrize("door", ["write", "transaction"])
def test_a_method_alone_is_seen_by_others_once_its_unit_has_ended(
    writer: Writer, door: str, store: Store, engine: Engine, path: Path
) -> None:
    seed(store, engine)
    before = answer(path, engine, writer)
    assert before != writer.answer

    def body(unit: Unit) -> None:
        writer.call(unit)
        assert answer(path, engine, writer) == before

    through(door, store, body)
    assert answer(path, engine, writer) == writer.answer


@unit_writers
@pytest.mark.parametrize("door", ["write", "transaction"])
def test_a_method_in_a_unit_that_fails_leaves_nothing(
    writer: Writer, door: str, store: Store, engine: Engine, path: Path
) -> None:
    seed(store, engine)
    before = dump(path, engine)

    def body(unit: Unit) -> None:
        unit.append("kid", "user", "others, before")
        writer.call(unit)
        assert unit.connection.sql(writer.question)[0][0] == writer.answer
        unit.append("kid", "user", "others, after")
        raise Stop

    with pytest.raises(Stop):
        through(door, store, body)
    assert dump(path, engine) == before


@pytest.fixture
def seeded(db: SessionDB, engine: Engine) -> SessionDB:
    seed(db.store, engine)
    return db


@contextmanager
def commits_fail(store: Store) -> Iterator[None]:
    """Inside, the database refuses every COMMIT of this store."""

    def refuse_commits(action: int, name: str | None, *rest: object) -> int:
        return 1 if action == STANDARD.SQLITE_TRANSACTION and name == "COMMIT" else 0

    def set_rule(rule: Callable[..., int]) -> None:
        with pytest.raises(Stop), store.transaction() as unit:  # noqa: PT012
            unit.connection.raw.set_authorizer(rule)
            raise Stop

    set_rule(refuse_commits)
    yield
    set_rule(lambda *rest: 0)


@db_writers
def test_a_drop_in_method_alone_is_seen_by_others(
    writer: Writer, seeded: SessionDB, engine: Engine, path: Path
) -> None:
    assert answer(path, engine, writer) != writer.answer
    writer.call(seeded)
    assert answer(path, engine, writer) == writer.answer


@db_writers
def test_a_drop_in_method_whose_commit_fails_leaves_nothing(
    writer: Writer, seeded: SessionDB, engine: Engine, path: Path
) -> None:
    before = dump(path, engine)
    with commits_fail(seeded.store), pytest.raises(STANDARD.DatabaseError, match="not authorized"):
        writer.call(seeded)
    assert dump(path, engine) == before
    writer.call(seeded)
    assert answer(path, engine, writer) == writer.answer


@db_writers
def test_a_drop_in_method_inside_a_unit_changes_nothing_and_does_not_end_it(
    writer: Writer, seeded: SessionDB, engine: Engine, path: Path
) -> None:
    before = answer(path, engine, writer)
    with seeded.store.transaction() as unit:
        unit.append("empty", "user", "outer")
        with pytest.raises(NestedUnit):
            writer.call(seeded)
    assert answer(path, engine, writer) == before
    assert query(path, engine, "SELECT count(*) FROM messages WHERE content = 'outer'") == [(1,)]
