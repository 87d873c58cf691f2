"""What entities see of the column types, and what the file holds."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hermes_store import Store, Unit
from hermes_store.errors import ForeignKeyFailed
from hermes_store.models import AsyncDelegation, GatewayRouting, Message, Session, SessionModelUsage, StateMeta
from hermes_store.models.base import Flag, JsonText, UnixTime
from hermes_store.settings import Settings


def _stored(store: Store, statement: str) -> Any:
    with store.reader() as reader:
        return reader.connection.sql(statement)[0]


def _session(**columns: Any) -> Session:
    return Session(id="a", source="cli", started_at=1_772_000_000.25, **columns)


def test_times_are_real_seconds(store: Store) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session(ended_at=None, last_read_at=5))
    assert _stored(
        store, "SELECT typeof(started_at), started_at, typeof(ended_at), typeof(last_read_at) FROM sessions"
    ) == ("real", 1_772_000_000.25, "null", "real")
    with store.transaction() as unit:
        found = unit.orm.get_one(Session, "a")
        assert (found.started_at, found.ended_at, found.last_read_at) == (1_772_000_000.25, None, 5.0)


@pytest.mark.parametrize(
    ("given", "column", "seen"), [(True, 1, True), (False, 0, False), (1, 1, True), (7, 1, True), (None, 0, False)]
)
def test_flags_are_integers_in_the_file_and_bools_on_entities(
    store: Store, given: Any, column: int, seen: bool
) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session(**({} if given is None else {"pinned": given})))
    assert _stored(store, "SELECT typeof(pinned), pinned FROM sessions") == ("integer", column)
    with store.transaction() as unit:
        assert unit.orm.get_one(Session, "a").pinned is seen


def test_a_flag_that_is_null_in_the_file_is_none(store: Store) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session())
        unit.orm.flush()
        unit.connection.sql("UPDATE sessions SET expiry_finalized = NULL")
    with store.transaction() as unit:
        assert unit.orm.get_one(Session, "a").expiry_finalized is None


def test_a_flag_filters_in_statements(store: Store) -> None:
    with store.transaction() as unit:
        unit.orm.add_all([_session(archived=True), Session(id="b", source="cli", started_at=1.0)])
        unit.orm.flush()
        assert unit.orm.scalars(select(Session.id).where(Session.archived.is_(True))).all() == ["a"]
        assert unit.orm.scalars(select(Session.id).where(Session.archived == False)).all() == ["b"]  # noqa: E712


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('{"a": [1, null, "数据"]}', {"a": [1, None, "数据"]}),
        ("[]", []),
        ('{"a": 1', '{"a": 1'),
        ("no json", "no json"),
        ('"quoted"', '"quoted"'),
        ("12", "12"),
        ("null", "null"),
        ("", ""),
        (None, None),
    ],
)
def test_json_text_is_read_tolerantly_and_never_rewritten(store: Store, text: str | None, seen: Any) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session(model_config=text))
    assert _stored(store, "SELECT model_config FROM sessions") == (text,)
    with store.transaction() as unit:
        found = unit.orm.get_one(Session, "a")
        assert found.model_config == seen
        found.title = "other columns change"
    assert _stored(store, "SELECT model_config FROM sessions") == (text,)


@pytest.mark.parametrize("value", [{"b": 1, "a": {"数": [True, None]}}, [], {}, [1.5, "x"]])
def test_json_objects_are_stored_as_text(store: Store, value: Any) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session(origin_json=value))
    assert _stored(store, "SELECT typeof(origin_json) FROM sessions") == ("text",)
    with store.transaction() as unit:
        assert unit.orm.get_one(Session, "a").origin_json == value


@pytest.mark.parametrize("damaged", ["[" * 100_000, '{"a":' * 100_000], ids=["lists", "objects"])
def test_json_nested_beyond_reason_stays_text(store: Store, damaged: str) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session(model_config=damaged))
    with store.transaction() as unit:
        assert unit.orm.get_one(Session, "a").model_config == damaged


@pytest.mark.parametrize("type_", [UnixTime(), Flag(), JsonText()], ids=lambda each: type(each).__name__)
def test_types_of_our_own_can_be_cached(type_: Any) -> None:
    assert type_.cache_ok is True


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=40)
@given(st.lists(json_values, max_size=3) | st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_any_json_object_or_list_comes_back_equal(value: Any) -> None:
    with Store.open(":memory:", settings=Settings()) as store:
        with store.transaction() as unit:
            unit.orm.add(_session(model_config=value))
        with store.transaction() as unit:
            assert unit.orm.get_one(Session, "a").model_config == value


def test_every_table_with_a_key_is_an_entity(store: Store) -> None:
    entities = [
        _session(),
        Message(session_id="a", role="user", content="hi", timestamp=2.0, tool_calls=[{"id": "c"}]),
        SessionModelUsage(session_id="a", model="m"),
        StateMeta(key="goal:a", value="{}"),
        GatewayRouting(session_key="k", entry_json={"session_id": "a"}, updated_at=1.0),
        AsyncDelegation(delegation_id="d", origin_session="a", state="running", dispatched_at=1.0, updated_at=1.0),
    ]
    with store.transaction() as unit:
        for entity in entities:
            unit.orm.add(entity)
            unit.orm.flush()
    with store.transaction() as unit:
        message = unit.orm.scalars(select(Message)).one()
        assert (message.id, message.active, message.compacted, message.observed) == (1, True, False, False)
        assert message.tool_calls == [{"id": "c"}]
        usage = unit.orm.scalars(select(SessionModelUsage)).one()
        assert (usage.task, usage.billing_mode, usage.input_tokens, usage.actual_cost_usd) == ("", "", 0, 0.0)
        routed = unit.orm.scalars(select(GatewayRouting)).one()
        assert (routed.scope, routed.entry_json) == ("", {"session_id": "a"})
        delegation = unit.orm.scalars(select(AsyncDelegation)).one()
        assert (delegation.delivery_state, delegation.delivery_attempts) == ("pending", 0)


def test_an_entity_is_searchable_like_any_message(store: Store) -> None:
    with store.transaction() as unit:
        unit.orm.add(_session())
        unit.orm.flush()
        unit.orm.add(Message(session_id="a", role="user", content="an ocelot 数据库迁移", timestamp=2.0))
    with store.reader() as reader:
        for query in ("ocelot", "数据库迁移"):
            assert [hit.session_id for hit in reader.search.messages(query)] == ["a"]


@pytest.mark.parametrize(
    "owned",
    [Message(session_id="a", role="user", timestamp=2.0), SessionModelUsage(session_id="a", model="m")],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("owner_first", [True, False])
def test_a_session_and_what_it_owns_may_be_added_in_one_go(store: Store, owned: Any, owner_first: bool) -> None:
    entities = [_session(), type(owned)(**{name: value for name, value in vars(owned).items() if name[0] != "_"})]
    with store.transaction() as unit:
        unit.orm.add_all(entities if owner_first else entities[::-1])
    assert _stored(store, f"SELECT session_id FROM {type(owned).__tablename__}") == ("a",)


def test_an_entity_that_the_file_refuses_raises_an_error_of_ours(store: Store) -> None:
    def body(unit: Unit) -> None:
        unit.orm.add(Message(session_id="nobody", role="user", timestamp=2.0))
        unit.orm.flush()

    with pytest.raises(ForeignKeyFailed, match="FOREIGN KEY constraint failed"):
        store.write(body)
