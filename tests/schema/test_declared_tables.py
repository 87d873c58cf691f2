"""The models declare the tables of a Hermes file, and opening a store makes exactly those."""

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.models import ON_DEMAND_TABLES, Base, OnDemandBase
from tests.schema import expected
from tests.schema.inspecting import Table, describe_all, describe_file, opened, rows, scratch, tables_of
from tests.support.drivers import Engine, installed


def _created(driver: str, *bases: type[Base] | type[OnDemandBase]) -> dict[str, Table]:
    """The tables that `create_all` makes."""
    with scratch(driver) as raw:
        made = create_engine("sqlite://", module=load_driver(driver).module, creator=lambda: raw, poolclass=StaticPool)
        for base in bases:
            base.metadata.create_all(made)
        return describe_all(raw)


@pytest.fixture(scope="module", params=installed())
def created(request: pytest.FixtureRequest) -> dict[str, Table]:
    return _created(request.param, Base)


@pytest.mark.parametrize("name", expected.TABLES)
def test_create_all_makes_the_declared_table(created: dict[str, Table], name: str) -> None:
    assert created[name] == expected.TABLES[name]


def test_create_all_makes_nothing_else(created: dict[str, Table]) -> None:
    assert set(created) == set(expected.TABLES)


def test_a_fresh_store_has_the_declared_tables_and_the_one_of_its_revision(store: Store, engine: Engine) -> None:
    with store.reader() as reader:
        assert describe_all(reader.connection.raw) == {
            **expected.TABLES,
            "alembic_version": expected.REVISION_TABLE,
        }


def test_a_fresh_store_has_ids_that_are_never_used_again(store: Store) -> None:
    with store.transaction() as unit:
        unit.create_session("a", "cli")
        unit.append("a", "user", "one")
        last = unit.append("a", "user", "two")
        unit.clear_messages("a")
        assert unit.append("a", "user", "three") == last + 1


def test_a_fresh_store_uses_none_of_the_file_headers(store: Store, engine: Engine) -> None:
    store.close()
    with opened(store.path, engine.driver) as raw:
        assert rows(raw, "PRAGMA user_version") == [(0,)]
        assert rows(raw, "PRAGMA encoding") == [("UTF-8",)]
        assert rows(raw, "PRAGMA auto_vacuum") == [(0,)]


def test_a_fresh_store_is_stamped_23_and_head(store: Store) -> None:
    with store.reader() as reader:
        raw = reader.connection.raw
        assert rows(raw, "SELECT version FROM schema_version") == [(23,)]
        assert rows(raw, "SELECT version_num FROM alembic_version") == [("0023",)]
    assert store.report.created
    assert not store.report.adopted


@pytest.mark.parametrize("driver", installed())
@pytest.mark.parametrize("name", expected.ON_DEMAND_TABLES)
def test_on_demand_tables_are_made_as_declared(driver: str, name: str) -> None:
    assert _created(driver, Base, OnDemandBase)[name] == expected.ON_DEMAND_TABLES[name]


def test_the_on_demand_tables_are_known_by_name() -> None:
    assert set(expected.ON_DEMAND_TABLES) == ON_DEMAND_TABLES


def test_opening_never_makes_an_on_demand_table(store: Store) -> None:
    store.close()
    with Store.open(store.path) as again, again.reader() as reader:
        assert not tables_of(reader.connection.raw) & ON_DEMAND_TABLES


def test_on_demand_tables_are_left_alone_by_opening(store: Store, engine: Engine) -> None:
    with store.transaction() as unit:
        OnDemandBase.metadata.create_all(
            unit.connection.sa, tables=[OnDemandBase.metadata.tables[name] for name in ON_DEMAND_TABLES]
        )
    store.close()
    Store.open(store.path).close()
    found = describe_file(store.path, engine.driver)
    assert {name: found[name] for name in ON_DEMAND_TABLES} == expected.ON_DEMAND_TABLES
    assert found["sessions"] == expected.TABLES["sessions"]


def test_deleting_a_session_takes_its_usage_and_topic_bindings_along(store: Store) -> None:
    with store.transaction() as unit:
        OnDemandBase.metadata.create_all(
            unit.connection.sa, tables=[OnDemandBase.metadata.tables["telegram_dm_topic_bindings"]]
        )
        unit.create_session("a", "telegram")
        raw = unit.connection
        raw.sql("INSERT INTO session_model_usage (session_id, model) VALUES ('a', 'm')")
        raw.sql(
            "INSERT INTO telegram_dm_topic_bindings (chat_id, thread_id, user_id, session_key, session_id, linked_at,"
            " updated_at) VALUES ('1', '2', 'u', 'k', 'a', 1, 1)"
        )
        raw.sql("DELETE FROM sessions WHERE id = 'a'")
        assert raw.sql("SELECT count(*) FROM session_model_usage") == [(0,)]
        assert raw.sql("SELECT managed_mode FROM telegram_dm_topic_bindings") == []
