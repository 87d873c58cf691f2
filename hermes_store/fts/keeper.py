"""What the write doors do for the search indexes: flush, merge, cure (rules FTS-7, FTS-12 and FTS-13)."""

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermes_store.database.damage import Cure
from hermes_store.errors import CorruptStore, OperationFailed
from hermes_store.events import Teller
from hermes_store.fts.cure import cure_indexes, replace_indexes
from hermes_store.fts.indexes import INDEXES
from hermes_store.fts.segments import STEP_PAGES, debt, hold_merges_back, merge_step, read_levels

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.driver import Driver

LOOK_AFTER = 2_500
"""Changed rows, those under the indexes included, between two looks at how many segments there are. About 160 messages,
so that a merge falls on few appends."""

LARGEST = 10
"""Steps that a large unit merges at once, at most."""

HOLD_AFTER = 8
"""Commits of a handle after which FTS5 is kept from merging by itself; before, that is not worth its price."""

_FIND = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN "
    f"({', '.join(repr(index.name) for index in INDEXES)}) AND instr(lower(sql), 'fts5') > 0"
)


@functools.cache
def knows_flush(driver: "Driver") -> bool:
    """Whether FTS5 of this library can be told to write what it holds back, tried on a database in memory."""
    probe = driver.module.connect(":memory:", isolation_level=None)
    try:
        probe.execute("CREATE VIRTUAL TABLE probe USING fts5(x)")
        probe.execute("INSERT INTO probe(probe) VALUES ('flush')")
    except driver.module.Error:
        return False
    else:
        return True
    finally:
        probe.close()


def _find(connection: "Connection") -> tuple[str, ...]:
    """The names of the indexes that are there, and that this library can look into."""
    return tuple(name for (name,) in connection.sql(_FIND)) if connection.driver.has_fts5 else ()


def _due(connection: "Connection", names: tuple[str, ...]) -> dict[str, int]:
    """How many steps of merging are due, by index."""
    steps = {name: debt(read_levels(connection, name)) for name in names}
    return {name: count for name, count in steps.items() if count}


class Keeper:
    """The indexes of one writing connection."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._names: tuple[str, ...] | None = None
        self._commits = 0
        self._looked_at = 0  # changes of the connection when the segments were looked at last
        self._holds = False

    def seal(self, connection: "Connection") -> None:
        """Before COMMIT: flush every index, and every now and then merge what is due. Raises CorruptStore.

        Newer libraries show the damage of an index only when it writes, which would be in the middle of COMMIT: that
        ends the unit, while after a flush it can still be kept.
        """
        if self._names is None:
            self._names = _find(connection)
        if self._names and knows_flush(connection.driver):
            for name in self._names:
                self._flush(connection, name)
        changed = connection.raw.total_changes - self._looked_at
        if self._commits == 0 or changed >= LOOK_AFTER:
            self._names = _find(connection)  # whoever changed the layout is another process
            # A unit that has written much merges much: what it leaves is no more than what many small ones would.
            self._merge(connection, _due(connection, self._names), max(1, min(changed // LOOK_AFTER, LARGEST)))
            self._looked_at = connection.raw.total_changes
        elif self._names and not self._holds and self._commits >= HOLD_AFTER:
            self._holds = hold_merges_back(connection, self._names)
        self._commits += 1

    def _flush(self, connection: "Connection", name: str) -> None:
        with self._if_there(connection, name):
            connection.sql(f"INSERT INTO {name}({name}) VALUES ('flush')")

    @contextmanager
    def _if_there(self, connection: "Connection", name: str) -> Iterator[None]:
        """Upkeep of an index that the unit itself, its mending, or somebody before it has removed is no failure."""
        try:
            yield
        except CorruptStore:
            raise
        except OperationFailed:
            self._names = None
            if connection.sql("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)):
                raise

    def _merge(self, connection: "Connection", due: dict[str, int], least: int) -> None:
        for name, steps in due.items():
            pages = STEP_PAGES * max(steps, least)
            began = time.perf_counter()
            with self._if_there(connection, name):
                merge_step(connection, name, pages)
            self._teller.merged(name, time.perf_counter() - began, pages)

    def wants_upkeep(self, connection: "Connection") -> bool:
        """Whether a merge is due; asked before the handle is closed, if it has written anything."""
        return self._commits > 0 and bool(_due(connection, _find(connection)))

    def upkeep(self, connection: "Connection") -> None:
        """Merge what is due, inside an open unit."""
        self._merge(connection, _due(connection, _find(connection)), 1)

    def shaken(self) -> None:
        """A rollback may have made FTS5 read its settings again, and the indexes may be other ones."""
        self._names = None
        self._holds = False

    def cure(self, connection: "Connection", *, by_replacing: bool, fill: bool) -> list[Cure]:
        """Bring the indexes back in step with the messages; says what was done. Raises CorruptStore."""
        self._names = None
        return replace_indexes(connection, fill=fill) if by_replacing else cure_indexes(connection)
