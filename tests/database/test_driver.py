"""Which SQLite driver is taken, and when none is."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.database import Driver, choose_driver, is_wal_reset_vulnerable, load_driver
from hermes_store.database import driver as driver_module
from hermes_store.errors import DriverUnavailable
from tests.support.drivers import installed


def driver(name: str, *version: int, fts5: bool = True, trigram: bool = True) -> Driver:
    return Driver(name=name, module=ModuleType(name), version=version, has_fts5=fts5, has_trigram=trigram)


def forget_choices() -> None:
    for member in vars(driver_module).values():
        if hasattr(member, "cache_clear"):
            member.cache_clear()


@pytest.fixture
def fresh_choice() -> Iterator[None]:
    """No remembered driver before the test, none of its stubs afterwards."""
    forget_choices()
    yield
    forget_choices()


@pytest.mark.parametrize(
    ("version", "vulnerable"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 44, 9), False),
        ((3, 45, 0), True),
        ((3, 45, 6), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51), True),
        ((3, 51, 0), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52), False),
        ((3, 53, 4), False),
        ((4,), False),
    ],
)
def test_versions_that_can_damage_a_wal_file(version: tuple[int, ...], vulnerable: bool) -> None:
    """DRIVER-2; missing numbers count as zero."""
    assert is_wal_reset_vulnerable(version) is vulnerable
    assert driver("any", *version).wal_safe is not vulnerable


@pytest.mark.parametrize(
    ("candidate", "sound"),
    [
        (driver("any", 3, 51, 3), True),
        (driver("any", 3, 44, 6), True),
        (driver("any", 3, 51, 3, fts5=False, trigram=False), False),
        (driver("any", 3, 51, 3, trigram=False), False),
        (driver("any", 3, 46, 0), False),
        (driver("any", 3, 6, 23), False),  # not vulnerable, and much too old
    ],
    ids=lambda value: f"{value.version_text}-{value.has_fts5}-{value.has_trigram}" if value.__class__ is Driver else "",
)
def test_soundness_asks_for_age_search_and_a_safe_log(candidate: Driver, sound: bool) -> None:
    assert candidate.sound is sound


STANDARD_SOUND = driver("sqlite3", 3, 51, 3)
STANDARD_VULNERABLE = driver("sqlite3", 3, 46, 0)
STANDARD_OLD = driver("sqlite3", 3, 36, 0)
BUNDLED_SOUND = driver("pysqlite3", 3, 53, 4)


@pytest.mark.parametrize(
    ("standard", "bundled", "expected"),
    [
        pytest.param(STANDARD_SOUND, BUNDLED_SOUND, "sqlite3", id="the standard library first"),
        pytest.param(STANDARD_SOUND, None, "sqlite3", id="sound and alone"),
        pytest.param(STANDARD_VULNERABLE, BUNDLED_SOUND, "pysqlite3", id="the bundled one where the standard is not"),
        pytest.param(driver("sqlite3", 3, 51, 2), driver("pysqlite3", 3, 50, 7), "pysqlite3", id="sound, not newest"),
        pytest.param(STANDARD_VULNERABLE, None, "sqlite3", id="no sound one: what there is"),
        pytest.param(STANDARD_VULNERABLE, driver("pysqlite3", 3, 49, 1), "pysqlite3", id="no sound one: the newer"),
        pytest.param(STANDARD_VULNERABLE, driver("pysqlite3", 3, 45, 0), "sqlite3", id="no sound one: the standard"),
        pytest.param(driver("sqlite3", 3, 52, 0, fts5=False), BUNDLED_SOUND, "pysqlite3", id="no search built in"),
        pytest.param(driver("sqlite3", 3, 52, 0, trigram=False), BUNDLED_SOUND, "pysqlite3", id="no trigram built in"),
        pytest.param(STANDARD_OLD, BUNDLED_SOUND, "pysqlite3", id="too old, the bundled one helps"),
    ],
)
def test_the_choice_without_a_name(
    standard: Driver,
    bundled: Driver | None,
    expected: str,
    fresh_choice: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DRIVER-1."""

    def load(name: str) -> Driver:
        found = {"sqlite3": standard, "pysqlite3": bundled}[name]
        if found is None:
            raise DriverUnavailable(name)
        return found

    monkeypatch.setattr(driver_module, "load_driver", load)
    assert choose_driver().name == expected


@pytest.mark.parametrize("bundled", [None, driver("pysqlite3", 3, 35, 0)])
def test_nothing_new_enough_is_an_error_that_names_the_cure(
    bundled: Driver | None, fresh_choice: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> Driver:
        if name == "sqlite3":
            return STANDARD_OLD
        if bundled is None:
            raise DriverUnavailable(name)
        return bundled

    monkeypatch.setattr(driver_module, "load_driver", load)
    with pytest.raises(DriverUnavailable, match=r"3\.36\.0 is too old, 3\.37\.0 is needed.*hermes-store\[sqlite\]"):
        choose_driver()


def test_a_sound_standard_library_never_loads_the_bundled_driver(
    fresh_choice: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def load(name: str) -> Driver:
        asked.append(name)
        return STANDARD_SOUND

    monkeypatch.setattr(driver_module, "load_driver", load)
    choose_driver()
    assert asked == ["sqlite3"]


@pytest.mark.parametrize("name", installed())
def test_an_explicit_name_wins(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", name)
    assert choose_driver(name).name == name
    with Store.open(path) as store:
        assert store.driver.name == name
        library = store.write(lambda unit: unit.connection.sql("SELECT sqlite_version()"))
        assert library == [(store.driver.version_text,)]


@pytest.mark.parametrize("name", ["postgres", "SQLite", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(DriverUnavailable, match="pysqlite3 or sqlite3") as caught:
        choose_driver(name)
    assert caught.value.needs_action


def test_an_unknown_name_in_the_environment_creates_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", "postgres")
    with pytest.raises(DriverUnavailable, match="postgres"):
        Store.open(path)
    assert list(path.parent.iterdir()) == []


@pytest.fixture
def without_bundled(fresh_choice: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pysqlite3", "pysqlite3.dbapi2"):
        monkeypatch.setitem(sys.modules, module, None)


def test_a_missing_driver_that_is_named_says_how_to_install_it(without_bundled: None) -> None:
    with pytest.raises(DriverUnavailable, match=r"'pysqlite3' is not installed.*hermes-store\[sqlite\]"):
        load_driver("pysqlite3")


def test_a_missing_driver_that_is_not_named_is_done_without(without_bundled: None, path: Path) -> None:
    standard = load_driver("sqlite3")
    assert choose_driver() == standard
    with Store.open(path) as store:
        assert store.driver.name == "sqlite3"
        assert store.journal_mode == ("wal" if standard.wal_safe else "delete")


class StubConnection:
    """A connection of a library that was built without some of FTS5."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def execute(self, statement: str) -> None:
        if any(word in statement for word in self._module.unsupported):
            raise self._module.OperationalError("no such module or tokenizer")

    def close(self) -> None:
        self._module.closed += 1


def stub_module(*unsupported: str) -> Any:
    module: Any = ModuleType("pysqlite3.dbapi2")
    module.unsupported = unsupported
    module.closed = 0
    module.OperationalError = type("OperationalError", (Exception,), {})
    module.sqlite_version_info = (3, 52, 0)
    module.connect = lambda target: StubConnection(module)
    return module


@pytest.mark.parametrize(
    ("unsupported", "fts5", "trigram"), [((), True, True), (("fts5",), False, False), (("trigram",), True, False)]
)
def test_what_a_library_can_do_is_tried(
    unsupported: tuple[str, ...], fts5: bool, trigram: bool, fresh_choice: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = stub_module(*unsupported)
    monkeypatch.setitem(sys.modules, "pysqlite3", ModuleType("pysqlite3"))
    monkeypatch.setitem(sys.modules, "pysqlite3.dbapi2", module)
    loaded = load_driver("pysqlite3")
    assert (loaded.has_fts5, loaded.has_trigram, loaded.version_text) == (fts5, trigram, "3.52.0")
    assert module.closed == 1
