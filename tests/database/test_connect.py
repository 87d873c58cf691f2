"""Raw connections: odd paths, reading without creating, and what a connection is set to."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hermes_store import HermesStoreError, Store, connect
from hermes_store.database import load_driver
from hermes_store.errors import DriverUnavailable, OpenFailed
from tests.database.helpers import STANDARD, settings_of
from tests.support.drivers import Engine

ODD_NAMES = [
    "plain.db",
    "with space.db",
    " edges .db",
    "hash#tag.db",
    "question?mode=memory.db",
    "percent%41%20%zz.db",
    "部署 说明.db",
    "quote'\"`.db",
    "semi;colon&and=plus+.db",
    "back\\slash.db",
    "emoji-🦀.db",
]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("place", ["file", "folder"])
def test_odd_paths_open_exactly_the_file_that_is_named(name: str, place: str, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / name if place == "file" else tmp_path / name / "state.db"
    path.parent.mkdir(exist_ok=True)
    with closing(connect(path, driver=engine.driver)) as writing:
        writing.execute("CREATE TABLE t(x)")
        writing.execute("INSERT INTO t VALUES (1)")
    with closing(connect(path, driver=engine.driver, read_only=True)) as reading:
        assert reading.execute("SELECT x FROM t").fetchall() == [(1,)]
        assert Path(reading.execute("PRAGMA database_list").fetchone()[2]) == path.resolve()
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_store_works_at_odd_paths(name: str, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / name / name
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        with store.reader() as reader:
            assert reader.sessions.count() == 1
    with Store.open(path, read_only=True) as store, store.reader() as reader:
        assert reader.sessions.count() == 1


@pytest.mark.parametrize("name", ["state.db", "file:state.db", "file:state.db?mode=memory", "a#b?c.db"])
@pytest.mark.parametrize("spell", [str, Path])
def test_a_relative_path_is_a_path_and_never_a_uri(
    spell: Callable[[str], str | Path], name: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(connect(spell(name), driver=engine.driver)) as writing:
        writing.execute("CREATE TABLE t(x)")
    assert [each.name for each in tmp_path.iterdir()] == [name]
    with closing(connect(spell(name), driver=engine.driver, read_only=True)) as reading:
        assert reading.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_reading_never_creates_a_file(engine: Engine, path: Path) -> None:
    with pytest.raises(OpenFailed, match="unable to open database file") as caught:
        connect(path, driver=engine.driver, read_only=True)
    assert isinstance(caught.value, STANDARD.OperationalError)
    assert isinstance(caught.value.__cause__, load_driver(engine.driver).module.OperationalError)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_in_a_missing_folder_cannot_be_opened(read_only: bool, engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(OpenFailed, match="unable to open database file"):
        connect(tmp_path / "missing" / "state.db", driver=engine.driver, read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_cannot_be_opened(read_only: bool, engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(HermesStoreError) as caught:
        connect(tmp_path, driver=engine.driver, read_only=read_only)
    assert isinstance(caught.value, STANDARD.OperationalError)
    assert list(tmp_path.iterdir()) == []


def test_a_reading_connection_refuses_to_write(engine: Engine, store: Store, path: Path) -> None:
    with closing(connect(path, driver=engine.driver, read_only=True)) as raw:
        with pytest.raises(load_driver(engine.driver).module.OperationalError, match="readonly"):
            raw.execute("DELETE FROM state_meta")
        assert raw.execute("SELECT version FROM schema_version").fetchone() == (23,)


def test_a_connection_is_in_autocommit_mode(engine: Engine, path: Path) -> None:
    with closing(connect(path, driver=engine.driver)) as first, closing(connect(path, driver=engine.driver)) as second:
        first.execute("CREATE TABLE t(x)")
        first.execute("INSERT INTO t VALUES (1)")
        assert not first.in_transaction
        assert second.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_the_driver_can_be_given_by_name_or_as_it_is(engine: Engine, path: Path) -> None:
    driver = load_driver(engine.driver)
    with closing(connect(path, driver=driver)) as one, closing(connect(path, driver=engine.driver)) as two:
        assert isinstance(one, driver.module.Connection)
        assert isinstance(two, driver.module.Connection)
    with pytest.raises(DriverUnavailable):
        connect(path, driver="postgres")


def test_memory_is_no_file(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(connect(":memory:", driver=engine.driver)) as raw:
        raw.execute("CREATE TABLE t(x)")
    with Store.open(":memory:", settings=settings_of(engine)) as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        with store.reader() as reader:
            assert reader.sessions.count() == 1
    assert list(tmp_path.iterdir()) == []
