"""What a change of the layout needs, what it refuses, and what goes on beside it (FTS-8, FTS-10, FTS-11)."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.errors import DiskFull, NestedUnit, ReadOnlyStore
from hermes_store.fts import rebuild
from hermes_store.maintenance import optimize as optimize_module
from hermes_store.maintenance.optimize import StorageProgress, is_optimize_available, optimize_storage
from tests.fts.helpers import (
    ANY_ENGINE,
    assert_finds,
    assert_settled,
    build_1200,
    build_old,
    due,
    indexed,
    open_store,
    optimize,
    sessions_with,
)
from tests.schema.inspecting import change, master, opened, rows
from tests.search.helpers import lame_driver
from tests.support.clocks import FakeClock
from tests.support.drivers import Engine, installed


def _call(db: SessionDB) -> dict[str, Any]:
    answer: dict[str, Any] = db.optimize_fts_storage(vacuum=False)
    return answer


# -- refusals ------------------------------------------------------------------------------------------------


@ANY_ENGINE
def test_a_handle_that_only_reads(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    Store.open(path).close()
    with SessionDB(path, read_only=True) as db:
        assert db.fts_optimize_available() is False
        assert db.optimize_fts_storage() == {"ok": False, "reason": "read_only"}
        assert db.fts_rebuild_step() is False
        assert db.fts_rebuild_status() is None
        with pytest.raises(ReadOnlyStore):
            db.store.vacuum()


def test_without_fts5(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_old(path, engine)
    with monkeypatch.context() as patch:
        lame_driver(patch, has_fts5=False, has_trigram=False)
        with SessionDB(path) as db:
            assert db.fts_optimize_available() is False
            assert db.optimize_fts_storage() == {"ok": False, "reason": "fts5_unavailable"}
            assert db.fts_rebuild_step() is False
        with SessionDB(path, read_only=True) as db:
            assert db.optimize_fts_storage() == {"ok": False, "reason": "fts5_unavailable"}
    with open_store(path) as store:
        assert optimize(store).ok
    assert_settled(path, engine)


def test_without_the_trigram_tokenizer_the_index_of_words_is_built(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = build_old(path, engine)
    with monkeypatch.context() as patch:
        lame_driver(patch, has_trigram=False)
        with open_store(path) as store:
            assert is_optimize_available(store)
            assert optimize(store).ok
            assert not is_optimize_available(store)
            assert_finds(store, story)
        with opened(path, engine.driver) as raw:
            assert indexed(raw) == due(raw)
            assert rows(raw, "SELECT 1 FROM sqlite_master WHERE name LIKE '%trigram%'") == []
    with open_store(path) as store:
        assert_finds(store, story)
    assert_settled(path, engine)


NEWER = "USING fts5(content, tool_name, content='messages', content_rowid='id')"


@ANY_ENGINE
@pytest.mark.parametrize("version", [22, 23])
def test_an_index_of_a_newer_release_is_left_alone(engine: Engine, path: Path, version: int) -> None:
    build_old(path, engine, version)
    change(
        path,
        engine.driver,
        *(f"DROP TRIGGER messages_fts_{event}" for event in ("insert", "delete", "update")),
        "DROP TABLE messages_fts",
        f"CREATE VIRTUAL TABLE messages_fts {NEWER}",
        "CREATE TABLE fts_v22_trash_x (a)",
    )
    with SessionDB(path) as db:
        with opened(path, engine.driver) as raw:
            before = master(raw)
        assert db.fts_optimize_available() is False
        assert _call(db) == {"ok": False, "reason": "unknown_layout"}
        assert db.fts_rebuild_step() is False
        with opened(path, engine.driver) as raw:
            assert master(raw) == before


@ANY_ENGINE
def test_inside_a_unit_nothing_is_begun(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    with open_store(path) as store:
        with store.transaction():
            with pytest.raises(NestedUnit):
                store.vacuum()
            with pytest.raises(NestedUnit):
                optimize(store)
        assert is_optimize_available(store)
        assert optimize(store).ok
    assert_settled(path, engine)


# -- a vacuum that fails -------------------------------------------------------------------------------------


@ANY_ENGINE
def test_a_vacuum_that_fails_does_not_fail_the_change(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_old(path, engine)

    def full(*arguments: Any, **options: Any) -> None:
        raise DiskFull

    with SessionDB(path) as db, monkeypatch.context() as patch:
        patch.setattr("hermes_store.store.vacuum", full)
        patch.setattr(optimize_module, "MIN_PAUSE", 0)
        patch.setattr(optimize_module, "DUTY", 0)
        assert db.optimize_fts_storage() == {"ok": True, "vacuumed": False}
    assert_settled(path, engine)


def test_a_vacuum_waits_for_a_writer(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    with open_store(path) as store, opened(path, engine.driver) as other:
        optimize(store)
        size = path.stat().st_size
        other.execute("BEGIN IMMEDIATE")
        waited = store.clock
        assert isinstance(waited, FakeClock)
        real = waited.sleep

        def release(seconds: float) -> None:
            if other.in_transaction:
                other.execute("COMMIT")
            real(seconds)

        waited.sleep = release  # type: ignore[method-assign]
        store.vacuum()
        assert waited.slept
        assert path.stat().st_size < size
    assert_settled(path, engine)


@ANY_ENGINE
def test_a_vacuum_leaves_the_settings_of_the_connection(engine: Engine, path: Path) -> None:
    names = ("foreign_keys", "synchronous", "recursive_triggers", "cache_spill")
    with open_store(path) as store:

        def settings() -> list[Any]:
            return store.write(lambda unit: [unit.connection.sql(f"PRAGMA {name}") for name in names])

        before = settings()
        store.vacuum()
        assert settings() == before


# -- the catalogue -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [10, 22, 23])
def test_where_no_catalogue_can_be_edited_the_old_indexes_are_dropped(
    engine: Engine, path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_old(path, engine, version)
    monkeypatch.setattr(rebuild, "set_aside", lambda *arguments: False)
    with open_store(path) as store:
        store.write(lambda unit: rebuild.begin(unit.connection))
        with opened(path, engine.driver) as raw:
            assert rows(raw, "SELECT 1 FROM sqlite_master WHERE name LIKE 'fts_v22_trash%'") == []
        assert optimize(store).ok
    assert_settled(path, engine)


@ANY_ENGINE
def test_the_catalogue_cannot_be_edited_afterwards(engine: Engine, path: Path) -> None:
    build_old(path, engine)
    with open_store(path) as store:
        optimize(store)
        for name in ("writable_schema", "legacy_alter_table"):
            with store.transaction() as unit:
                assert unit.connection.sql(f"PRAGMA {name}") == [(0,)]


def test_beginning_costs_nothing_in_data(engine: Engine, path: Path) -> None:
    """Not one page of what the old indexes held is written."""
    build_1200(path, engine)
    with open_store(path) as store:
        with opened(path, engine.driver) as raw:
            before = rows(raw, "PRAGMA page_count"), rows(raw, "PRAGMA freelist_count")
        store.write(lambda unit: rebuild.begin(unit.connection))
        with opened(path, engine.driver) as raw:
            after = rows(raw, "PRAGMA page_count"), rows(raw, "PRAGMA freelist_count")
    assert after[1] == before[1] == [(0,)]
    assert before[0][0][0] < after[0][0][0] < before[0][0][0] + 30


# -- beside it -----------------------------------------------------------------------------------------------


def test_another_handle_writes_and_searches_between_all_units(engine: Engine, path: Path) -> None:
    build_1200(path, engine)
    with open_store(path) as store, SessionDB(path) as other:
        other.create_session("beside", "cli")
        found: list[int] = []
        written: list[int] = []

        def tell(progress: StorageProgress) -> None:
            written.append(other.append_message("beside", "user", f"axolotl number {len(written)}"))
            found.append(len(other.search_messages("axolotl", limit=None)))
            other.store.write(lambda unit: unit.connection.sql("DELETE FROM messages WHERE id = ?", (len(written),)))
            assert sessions_with(store, "数据库迁移")

        assert optimize_storage(store, progress=tell, vacuum=True).ok
        assert found == list(range(1, len(written) + 1))
        assert len(written) > 8
    assert_settled(path, engine)


def test_two_runs_at_once(engine: Engine, path: Path) -> None:
    """One goes on whenever the other one is between two units."""
    build_1200(path, engine)
    with open_store(path) as store, open_store(path) as other:
        inner: list[bool] = []

        def tell(progress: StorageProgress) -> None:
            if len(inner) < 3:
                inner.append(True)
                inner[-1] = optimize_storage(other, progress=tell, vacuum=False).ok

        assert optimize_storage(store, progress=tell, vacuum=False).ok
        assert inner == [True, True, True]
    assert_settled(path, engine)


def test_two_threads_at_once(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize_module, "MIN_PAUSE", 0)
    monkeypatch.setattr(optimize_module, "DUTY", 0)
    build_1200(path, engine)
    answers: list[dict[str, Any]] = []
    with SessionDB(path) as db:
        threads = [threading.Thread(target=lambda: answers.append(_call(db))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [{"ok": True, "vacuumed": None}] * 2
    assert_settled(path, engine)


@ANY_ENGINE
def test_after_every_unit_with_more_to_come_there_is_a_pause(engine: Engine, path: Path) -> None:
    build_1200(path, engine)

    class SlowClock(FakeClock):
        def monotonic(self) -> float:
            self.advance(1.0)  # every look at the clock takes a second
            return super().monotonic()

    clock = SlowClock()
    with Store.open(path, clock=clock) as store:
        clock.slept.clear()
        more: list[StorageProgress] = []
        assert optimize_storage(store, progress=more.append, vacuum=False).ok
    pauses = [each for each in clock.slept if each >= optimize_module.MIN_PAUSE]
    told = [each.phase for each in more]
    assert len(pauses) == (told.count("backfill") - 2) + (told.count("teardown") - 1)
    assert min(pauses) >= 4.0


@ANY_ENGINE
def test_a_pause_has_a_least_length(engine: Engine, path: Path) -> None:
    build_1200(path, engine)
    clock = FakeClock()
    with Store.open(path, clock=clock) as store:
        clock.slept.clear()
        optimize(store)
    assert set(clock.slept) == {0.2}


@ANY_ENGINE
def test_a_step_on_a_locked_file_says_come_again(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_1200(path, engine)
    with SessionDB(path) as db:
        db.store.write(lambda unit: rebuild.begin(unit.connection))
    settings = dataclasses.replace(SessionDB(path).store.settings, patience=0.0)
    with SessionDB(path) as db, opened(path, engine.driver) as other:
        monkeypatch.setattr(db.store, "_settings", settings)
        other.execute("BEGIN IMMEDIATE")
        assert db.fts_rebuild_step() is True
        assert db.fts_rebuild_status() == {"pending": True, "total": 1200, "indexed": 0, "percent": 0}
        other.execute("ROLLBACK")


def test_a_library_that_goes_on_with_a_rebuild_of_another_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = installed()
    if len(names) < 2:
        pytest.skip("needs two SQLite libraries")
    for first, second in (names, names[::-1]):
        copy = path.with_name(f"{first}.db")
        monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", first)
        story = build_old(copy, Engine(first, "delete"))
        monkeypatch.setattr(rebuild, "STEP", 250)
        with open_store(copy) as store:
            store.write(lambda unit: rebuild.begin(unit.connection))
            assert store.write(lambda unit: rebuild.step(unit.connection))
        monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", second)
        with open_store(copy) as store:
            assert optimize(store).ok
            assert_finds(store, story)
        assert_settled(copy, Engine(second, "delete"))
