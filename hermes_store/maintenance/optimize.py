"""Changing the layout of the search indexes of a store to today's, in short units with pauses (rules FTS-8 to FTS-11).

Others write and search meanwhile. An interrupted change is gone on with by the next call, in whatever process.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes_store.errors import OperationFailed
from hermes_store.fts.rebuild import status, step
from hermes_store.fts.storage import (
    BACKFILL_INCOMPLETE,
    FTS5_UNAVAILABLE,
    lacks_rows,
    optimize_available,
    prepare,
    settle,
    teardown,
    unfinished,
)
from hermes_store.store import Store

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds that one unit waits for the write lock
MIN_PAUSE = 0.2  # seconds between two units
DUTY = 4.0  # a pause is at least so many times as long as the unit before it

READ_ONLY = "read_only"


@dataclass(frozen=True, slots=True)
class StorageProgress:
    """How far a change is. phase: `backfill`, `teardown`, `vacuum` or `done`; total and indexed count ids."""

    phase: str
    percent: int
    indexed: int
    total: int


@dataclass(frozen=True, slots=True)
class StorageReport:
    """How a change ended. vacuumed: None where no vacuum was due, False where it failed. reason: why it is not ok."""

    ok: bool
    vacuumed: bool | None = None
    reason: str | None = None
    begun: bool = True

    def as_dict(self) -> dict[str, Any]:
        """`ok` with `vacuumed`, or with `reason`; both where the change had begun."""
        if self.ok:
            return {"ok": True, "vacuumed": self.vacuumed}
        found: dict[str, Any] = {"ok": False, "reason": self.reason}
        return {**found, "vacuumed": self.vacuumed} if self.begun else found


Told = Callable[[StorageProgress], object]


def is_optimize_available(store: Store) -> bool:
    """Whether `optimize_storage` has anything to do. False for a store that was opened for reading, without FTS5."""
    if store.read_only:
        return False
    with store.reader() as reader:
        return optimize_available(reader.connection)


def optimize_storage(store: Store, *, progress: Told | None = None, vacuum: bool = True) -> StorageReport:
    """Bring the indexes to today's layout, fill them, remove what the older ones held; then vacuum the file.

    No message is touched. `progress` is told of every step, between units; what it raises ends the call, and the next
    one goes on from there. Raises NestedUnit inside a unit, StoreLocked when somebody else writes for over a minute,
    DiskFull.
    """
    if not store.driver.has_fts5:
        return StorageReport(ok=False, reason=FTS5_UNAVAILABLE, begun=False)
    if store.read_only:
        return StorageReport(ok=False, reason=READ_ONLY, begun=False)
    return _Change(store, progress).run(vacuum=vacuum)


class _Change:
    def __init__(self, store: Store, progress: Told | None) -> None:
        self._store = store
        self._progress = progress

    def run(self, *, vacuum: bool) -> StorageReport:
        with self._store.reader() as reader:
            anew = lacks_rows(reader.connection)
        reason = self._unit(lambda connection: prepare(connection, anew=anew))
        if reason is not None:
            return StorageReport(ok=False, reason=reason, begun=False)
        for phase, work in (("backfill", step), ("teardown", teardown)):
            self._tell(phase)
            while self._in_step(work):
                self._tell(phase)
            if phase == "backfill":
                self._tell(phase)
        with self._store.reader() as reader:
            reason = unfinished(reader.connection)
            if reason is None and lacks_rows(reader.connection):
                reason = BACKFILL_INCOMPLETE
        if reason is not None:
            return StorageReport(ok=False, reason=reason)
        vacuumed = None
        if vacuum:
            self._tell("vacuum")
            vacuumed = self._vacuum()
        reason = self._unit(settle)
        if reason is not None:
            return StorageReport(ok=False, vacuumed=vacuumed, reason=reason)
        self._tell("done")
        return StorageReport(ok=True, vacuumed=vacuumed)

    def _unit(self, work: "Callable[[Connection], str | None]") -> str | None:
        return self._store.write(lambda unit: work(unit.connection), patience=PATIENCE)

    def _in_step(self, work: "Callable[[Connection], bool]") -> bool:
        """One unit, and a pause for everybody else if there are more."""
        clock = self._store.clock
        began = clock.monotonic()
        more = self._store.write(lambda unit: work(unit.connection), patience=PATIENCE)
        if more:
            clock.sleep(max(MIN_PAUSE, DUTY * (clock.monotonic() - began)))
        return more

    def _tell(self, phase: str) -> None:
        if self._progress is None:
            return
        with self._store.reader() as reader:
            now = status(reader.connection)
        shown = (100, 0, 0) if now is None else (now.percent, now.indexed, now.total)
        self._progress(StorageProgress(phase, *shown))

    def _vacuum(self) -> bool:
        try:
            self._store.vacuum(patience=PATIENCE)
        except OperationFailed as exc:
            log.warning("the file was not made smaller: %s", exc)
            return False
        return True
