"""Every fiftieth commit asks for a checkpoint that blocks nobody."""

import logging
from pathlib import Path

import pytest

from hermes_store import Store
from tests.database.helpers import Stop
from tests.support.drivers import Engine
from tests.support.statements import StatementLog, log_statements

CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


def commits_before_checkpoints(log: StatementLog) -> list[int]:
    """How many commits had been made at each checkpoint."""
    commits, found = 0, []
    for statement in log.statements:
        if statement == "COMMIT":
            commits += 1
        elif statement == CHECKPOINT:
            found.append(commits)
    return found


def test_every_fiftieth_commit_checkpoints(
    engine: Engine, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_statements(monkeypatch) as log, Store.open(path) as second:  # a current file: opening commits nothing
        for number in range(55):
            second.write(lambda unit, value=str(number): unit.meta.set("k", value))  # type: ignore[misc]
            with pytest.raises(Stop), second.transaction():  # what is rolled back does not count
                raise Stop
            with second.transaction() as unit:
                unit.meta.set("k", f"again {number}")
        assert commits_before_checkpoints(log) == [50, 100]
    assert commits_before_checkpoints(log) == [50, 100, 110]  # and once more at the close
    checkpoints = [statement for statement in log.statements if "checkpoint" in statement.lower()]
    assert set(checkpoints) == {CHECKPOINT}


def test_a_checkpoint_is_no_part_of_a_unit(
    engine: Engine, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log_statements(monkeypatch) as log, Store.open(path) as second:
        for _ in range(50):
            second.write(lambda unit: unit.meta.set("k", "v"))
        at = log.statements.index(CHECKPOINT)
        assert log.statements[at - 1] == "COMMIT"


def test_a_checkpoint_that_fails_fails_no_write(filled: Store, caplog: pytest.LogCaptureFixture) -> None:
    def refuse_checkpoints(action: int, name: str | None, *rest: object) -> int:
        return 1 if name == "wal_checkpoint" else 0

    filled.write(lambda unit: unit.connection.raw.set_authorizer(refuse_checkpoints))
    with caplog.at_level(logging.WARNING):
        for number in range(60):
            filled.write(lambda unit, value=str(number): unit.meta.set("k", value))  # type: ignore[misc]
    assert ["checkpoint failed" in record.message for record in caplog.records] == [True]
    with filled.reader() as reader:
        assert reader.meta.find("k") == "59"
