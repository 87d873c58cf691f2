"""One SQLite library for a file at a time, and no plain I/O on a file that is open."""

import gc
import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hermes_store import Settings, Store, connect
from hermes_store.database import load_driver, registry
from hermes_store.errors import DriverConflict, NotAStore, OpenFailed
from tests.database.helpers import STANDARD
from tests.support.drivers import Engine, installed

two_libraries = pytest.mark.skipif(len(installed()) < 2, reason="only one SQLite library is installed")


def same(path: Path) -> Path:
    return path


def relative(path: Path) -> Path:
    return Path(os.path.relpath(path))


def by_link(path: Path) -> Path:
    link = path.with_name("link.db")
    link.symlink_to(path)
    return link


def by_linked_folder(path: Path) -> Path:
    folder = path.parent.with_name(f"{path.parent.name}-link")
    folder.symlink_to(path.parent, target_is_directory=True)
    return folder / path.name


spellings = pytest.mark.parametrize("spell", [same, relative, by_link, by_linked_folder])


def test_a_connection_is_known_while_it_lives(engine: Engine, path: Path) -> None:
    assert not registry.has_live_connection(path)
    first = connect(path, driver=engine.driver)
    second = connect(path, driver=engine.driver)
    first.close()
    first.close()  # closing twice does not count twice
    assert registry.has_live_connection(path)
    second.close()
    assert not registry.has_live_connection(path)


@spellings
def test_the_register_knows_a_file_by_every_spelling(spell: Callable[[Path], Path], engine: Engine, path: Path) -> None:
    with closing(connect(path, driver=engine.driver)):
        assert registry.has_live_connection(spell(path))
    assert not registry.has_live_connection(path)


def test_a_connection_that_is_forgotten_leaves_the_register(engine: Engine, path: Path) -> None:
    connection = connect(path, driver=engine.driver)
    assert registry.has_live_connection(path)
    del connection
    gc.collect()
    assert not registry.has_live_connection(path)


def test_an_open_that_fails_leaves_no_trace_in_the_register(engine: Engine, path: Path) -> None:
    with pytest.raises(OpenFailed):
        connect(path, driver=engine.driver, read_only=True)
    assert not registry.has_live_connection(path)


def test_a_store_is_known_until_it_is_closed(store: Store, path: Path) -> None:
    with store.reader():
        assert registry.has_live_connection(path)
    store.close()
    assert not registry.has_live_connection(path)


def test_an_open_of_a_store_that_fails_leaves_no_connection(engine: Engine, path: Path) -> None:
    with closing(connect(path, driver=engine.driver)) as raw:
        raw.execute("CREATE TABLE accounts(id)")
    with pytest.raises(NotAStore, match="another program"):
        Store.open(path)
    assert not registry.has_live_connection(path)


@two_libraries
@spellings
@pytest.mark.parametrize(("first", "second"), [("sqlite3", "pysqlite3"), ("pysqlite3", "sqlite3")])
def test_a_second_library_is_refused_while_the_first_has_the_file(
    spell: Callable[[Path], Path], first: str, second: str, path: Path
) -> None:
    """FILE-2: the close of one library would cancel the locks of the other."""
    Store.open(path, settings=Settings(driver=first)).close()
    other = spell(path)
    with Store.open(path, settings=Settings(driver=first)) as store:
        for attempt in (
            lambda: connect(other, driver=second),
            lambda: connect(other, driver=second, read_only=True),
            lambda: Store.open(other, settings=Settings(driver=second)),
            lambda: Store.open(other, settings=Settings(driver=second), read_only=True),
        ):
            with pytest.raises(DriverConflict, match=f"through '{first}'.*'{second}'") as caught:
                attempt()
            assert isinstance(caught.value, STANDARD.OperationalError)
        store.write(lambda unit: unit.create_session("a", "cli"))
    with Store.open(other, settings=Settings(driver=second)) as store, store.reader() as reader:
        assert reader.sessions.count() == 1


@two_libraries
@pytest.mark.parametrize(("first", "second"), [("sqlite3", "pysqlite3"), ("pysqlite3", "sqlite3")])
def test_without_a_name_a_connection_joins_the_library_that_has_the_file(
    first: str, second: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", second)
    with Store.open(path, settings=Settings(driver=first)), closing(connect(path)) as joined:
        assert isinstance(joined, load_driver(first).module.Connection)
    with closing(connect(path)) as configured:
        assert isinstance(configured, load_driver(second).module.Connection)


@two_libraries
def test_two_libraries_may_use_two_files_and_memory(tmp_path: Path) -> None:
    with (
        closing(connect(tmp_path / "one.db", driver="sqlite3")) as one,
        closing(connect(tmp_path / "two.db", driver="pysqlite3")) as two,
        closing(connect(":memory:", driver="sqlite3")) as three,
        closing(connect(":memory:", driver="pysqlite3")) as four,
    ):
        for each in (one, two, three, four):
            each.execute("CREATE TABLE t(x)")


@spellings
def test_the_bytes_of_an_open_file_are_out_of_reach(spell: Callable[[Path], Path], engine: Engine, path: Path) -> None:
    with (
        closing(connect(path, driver=engine.driver)),
        pytest.raises(OpenFailed, match="close its handles first"),
        registry.offline_file(spell(path)),
    ):
        pytest.fail("the file was handed out")


def test_the_bytes_of_a_closed_file_can_be_read(store: Store, path: Path) -> None:
    store.close()
    with registry.offline_file(path) as stream:
        assert stream.read(16) == b"SQLite format 3\x00"


def test_a_connection_waits_until_the_bytes_have_been_read(engine: Engine, store: Store, path: Path) -> None:
    store.close()
    order: list[str] = []

    def open_it() -> None:
        with closing(connect(path, driver=engine.driver)):
            order.append("opened")

    thread = threading.Thread(target=open_it)
    with registry.offline_file(path):
        thread.start()
        thread.join(0.1)  # would be over by then if nothing held it back
        order.append("read")
    thread.join()
    assert order == ["read", "opened"]


def test_a_relative_path_is_resolved_once(
    engine: Engine, path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    connection = connect(path.name, driver=engine.driver)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert registry.has_live_connection(path)
    connection.close()
    assert not registry.has_live_connection(path)
