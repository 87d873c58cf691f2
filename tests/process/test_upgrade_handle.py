"""What an upgrade leaves behind: a handle like any other, and a file that the next open passes by in a few reads."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store, connect
from hermes_store.clock import SYSTEM_CLOCK
from hermes_store.database import load_driver
from hermes_store.database.database import Database
from hermes_store.errors import DiskFull, ForeignKeyFailed
from hermes_store.schema.upgrade import bring_up_to_date
from hermes_store.settings import Settings
from tests.process.upgrading import DAMAGED, VERSIONS, Old, content, make_old, old_file, upgraded
from tests.support.drivers import Engine
from tests.support.statements import log_statements

PRAGMAS = {"foreign_keys": 1, "cache_spill": 0, "synchronous": 2, "recursive_triggers": 1, "legacy_alter_table": 0}
"""The settings of a writing connection; SQLite answers 0 where nothing is spilled."""


class Interrupted(Exception):
    """An upgrade that goes no further."""


@pytest.fixture
def old(tmp_path: Path, engine: Engine) -> Old:
    return old_file(tmp_path, engine, "v16")


def raise_at(step: str, error: type[BaseException]) -> Callable[[str], None]:
    def progress(begun: str) -> None:
        if begun.startswith(step):
            raise error

    return progress


@pytest.mark.parametrize("name", ["v1", "v20", "usage_task_outside_key"])
def test_the_handle_of_an_upgrade_has_the_settings_of_any_other(path: Path, engine: Engine, name: str) -> None:
    make_old(path, engine, name)
    with Store.open(path) as store:
        assert store.report.changed
        assert store.write(lambda unit: {key: unit.connection.sql(f"PRAGMA {key}")[0][0] for key in PRAGMAS}) == PRAGMAS
        with pytest.raises(ForeignKeyFailed):
            store.append("no such session", "user", {"content": "lost"})


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt, DiskFull])
@pytest.mark.parametrize("step", ["tables", "revisions", "index ", "search indexes"])
def test_a_failed_upgrade_leaves_the_handle_and_the_file_as_they_were(
    engine: Engine, old: Old, step: str, error: type[BaseException]
) -> None:
    with old.copy() as path:
        driver, settings = load_driver(engine.driver), Settings(driver=engine.driver)
        database = Database.open_writable(path, driver=driver, settings=settings, clock=SYSTEM_CLOCK, new_file=False)
        with closing(database):
            with pytest.raises(error):
                bring_up_to_date(database, patience=1, alone=False, progress=raise_at(step, error))
            with database.writer.exclusive() as connection:
                assert {key: connection.sql(f"PRAGMA {key}")[0][0] for key in PRAGMAS} == PRAGMAS
                assert not connection.raw.in_transaction
            assert content(path, engine) == old.before
            # The same handle goes on.
            assert bring_up_to_date(database, patience=1, alone=False).changed
        assert old.look(path) == old.after


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt])
def test_a_failed_open_can_be_made_again(engine: Engine, old: Old, error: type[BaseException]) -> None:
    with old.copy() as path:
        for step in ("tables", "search indexes"):
            with pytest.raises(error):
                Store.open(path, progress=raise_at(step, error))
        with Store.open(path) as store:
            assert store.report.changed
        assert old.look(path) == old.after


@pytest.mark.parametrize("name", [*VERSIONS, *DAMAGED])
def test_an_upgraded_file_is_opened_with_at_most_five_statements(
    path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make_old(path, engine, name)
    with Store.open(path) as store:
        assert store.report.changed
    with log_statements(monkeypatch) as log, Store.open(path) as store:
        opening = list(log.without_transactions)
        pragmas = [text for text in log.statements if "schema_version" in text and "PRAGMA" in text.upper()]
        assert not store.report.changed
        assert [text for text in log.statements if text.upper().startswith(("BEGIN IMMEDIATE", "COMMIT"))] == []
    assert 1 <= len(opening) + len(pragmas) <= 5


def test_an_upgrade_tells_its_steps(path: Path, engine: Engine) -> None:
    make_old(path, engine, "v1")
    steps: list[str] = []
    with Store.open(path, progress=steps.append) as store:
        report = store.report
    assert steps[0] == "tables and columns"
    assert steps[1] == f"revisions {', '.join(report.revisions_run)}"
    assert steps[2:-1] == [f"index {name}" for name in report.indexes_created]
    assert report.indexes_created
    assert steps[-1] == "search indexes"
    steps.clear()
    Store.open(path, progress=steps.append).close()
    assert steps == []


@pytest.mark.parametrize(
    "loss",
    ["DROP TABLE alembic_version", "DELETE FROM alembic_version", "UPDATE alembic_version SET version_num = '0016'"],
)
@pytest.mark.parametrize("name", ["v16", "v22"])
def test_the_note_alone_makes_no_file_current(path: Path, engine: Engine, name: str, loss: str) -> None:
    """Hermes Agent builds a damaged file anew: `state_meta` comes along, the table of revisions does not."""
    make_old(path, engine, name)
    after = upgraded(path, engine)
    rebuilt = path.with_name("rebuilt.db")
    with closing(connect(path, driver=engine.driver)) as raw:
        (note,) = raw.execute("SELECT value FROM state_meta WHERE key = 'hermes_store_fingerprint'").fetchone()
        raw.execute("VACUUM INTO ?", (str(rebuilt),))
    with closing(connect(rebuilt, driver=engine.driver)) as raw:
        raw.execute(loss)
        # As unlucky as can be: the schema has been changed as often as the note says.
        raw.execute(f"PRAGMA schema_version={int(note.partition(':')[0])}")
    steps: list[str] = []
    with Store.open(rebuilt, progress=steps.append) as store:
        assert store.report.revision == "0023"
        assert steps
    found = content(rebuilt, engine)
    assert found["alembic_version"] == [("0023",)]
    assert {key: value for key, value in found.items() if key != "state_meta"} == {
        key: value for key, value in after.items() if key != "state_meta"
    }
    again: list[Any] = []
    Store.open(rebuilt, progress=again.append).close()
    assert again == []
