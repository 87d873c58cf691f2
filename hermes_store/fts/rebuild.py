"""Filling the indexes of today's layout in steps, each in a unit of its own (rules FTS-8 and FTS-9).

Two marks tell how far a rebuild is: messages with ids above the high-water mark are indexed as they come, those up to
the progress mark are in the indexes already, and those between them are nobody's business but that of the next steps.
Whoever has the file open may do a step; what it is going to add is claimed inside its unit.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.database.catalogue import set_aside
from hermes_store.fts.ensure import PARTIAL_KEY
from hermes_store.fts.indexes import (
    BASE_INDEX,
    COLUMNS,
    HIGH_WATER_KEY,
    INDEXES,
    PROGRESS_KEY,
    STORAGE_VERSION,
    STORAGE_VERSION_KEY,
    TRIGRAM_INDEX,
    Index,
)
from hermes_store.fts.layouts import JOINED_VIEW, Layout, layouts, objects
from hermes_store.fts.marks import read_mark, set_mark
from hermes_store.fts.nul_rows import WRITER_KEY, passes_nul, same_writer, writer_note, writer_passes_nul

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

STEP = 500
"""Ids that one step covers."""

SWEPT = 1_000
"""Ids on each side of the high-water mark that are looked through at the end for messages that no step met."""

TRASH_PREFIX = "fts_v22_trash_"
"""How the names of tables begin that held an index which was put aside."""

AVAILABLE_KEY = "fts_optimize_available"

_SHADOWS = ("data", "idx", "content", "docsize", "config")
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RebuildStatus:
    """How far a rebuild is, in ids and not in rows."""

    total: int
    indexed: int

    @property
    def percent(self) -> int:
        """0 to 100."""
        return max(0, min(100, 100 * self.indexed // self.total))


@dataclass(frozen=True, slots=True)
class Marks:
    """The two marks as numbers; None for one that is missing or no number. under_way: the high-water mark is there."""

    under_way: bool
    high_water: int | None
    progress: int | None

    @property
    def usable(self) -> bool:
        """True if they tell where to go on."""
        return self.high_water is not None and self.progress is not None


def read_marks(connection: "Connection") -> Marks:
    """The marks of the file as this connection sees it."""
    found = dict(
        connection.sql("SELECT key, value FROM state_meta WHERE key IN (?, ?)", (HIGH_WATER_KEY, PROGRESS_KEY))
    )
    return Marks(HIGH_WATER_KEY in found, _number(found.get(HIGH_WATER_KEY)), _number(found.get(PROGRESS_KEY)))


def _number(value: object) -> int | None:
    try:
        number = int(value)  # type: ignore[call-overload]  # whatever a file holds
    except (TypeError, ValueError):
        return None
    return number if abs(number) <= _LARGEST else None


def status(connection: "Connection") -> RebuildStatus | None:
    """How far the rebuild is; None where none is under way, or its mark is no number above 0."""
    marks = read_marks(connection)
    if marks.high_water is None:
        if marks.under_way:
            log.warning("the mark %s is no number; changing the layout again puts it right", HIGH_WATER_KEY)
        return None
    return RebuildStatus(marks.high_water, marks.progress or 0) if marks.high_water > 0 else None


# -- beginning --------------------------------------------------------------------------------------------------


def begin(connection: "Connection") -> int:
    """Put all indexes aside, make empty ones of today's layout, and mark every message as still to be added.

    All in the open unit, at a cost that does not depend on how much there is: what the indexes held stays, in tables of
    other names, until it is removed piece by piece. Returns the highest id that the steps have to reach.
    """
    present = objects(connection)
    for index in INDEXES:
        for name in index.trigger_names:
            connection.sql(f"DROP TRIGGER IF EXISTS {name}")
    _put_aside(connection, present)
    for view in (JOINED_VIEW, *(index.source for index in INDEXES if index.skips_tools)):
        connection.sql(f"DROP VIEW IF EXISTS {view}")
    for index in INDEXES:
        if index.is_usable(connection.driver):
            for statement in index.create_statements():
                connection.sql(statement)
    connection.sql("DELETE FROM state_meta WHERE key IN (?, ?)", (PARTIAL_KEY, AVAILABLE_KEY))
    connection.sql("DELETE FROM state_meta WHERE key = ? AND value = ?", (STORAGE_VERSION_KEY, STORAGE_VERSION))
    if TRIGRAM_INDEX.is_usable(connection.driver):
        set_mark(connection, WRITER_KEY, writer_note(connection.driver, passes_nul=passes_nul(connection.driver)))
    lowest, highest = connection.sql("SELECT MIN(id), MAX(id) FROM messages")[0]
    connection.sql("DELETE FROM state_meta WHERE key IN (?, ?)", (HIGH_WATER_KEY, PROGRESS_KEY))
    if highest is None:
        return 0
    # Ids below 1 are allowed, and are between the marks too.
    for key, value in ((HIGH_WATER_KEY, highest), (PROGRESS_KEY, min(0, lowest - 1))):
        set_mark(connection, key, str(value))
    return int(highest)


def _put_aside(connection: "Connection", present: dict[str, str]) -> None:
    there = [index.name for index in INDEXES if index.name in present]
    renamed: dict[str, str] = {}
    for name in there:
        for shadow in (f"{name}_{suffix}" for suffix in _SHADOWS):
            if shadow in present:
                renamed[shadow] = _free_name(TRASH_PREFIX + shadow, present)
    if there and not set_aside(connection, there, renamed):
        for name in there:
            connection.sql(f"DROP TABLE {name}")


def _free_name(wanted: str, present: dict[str, str]) -> str:
    name, number = wanted, 2
    while name in present:
        name, number = f"{wanted}_{number}", number + 1
    return name


# -- going on ---------------------------------------------------------------------------------------------------


def step(connection: "Connection") -> bool:
    """Add the messages of the next 500 ids to the indexes, in the open unit; True while more are left.

    The step that reaches the high-water mark ends the rebuild. False also where no rebuild is under way, the indexes
    have another layout, or the marks do not tell where to go on.
    """
    marks = read_marks(connection)
    indexes = _fillable(connection)
    if marks.high_water is None or not indexes:
        return False
    progress = marks.progress
    if progress is None:
        if any(_holds(connection, index) for index in indexes):
            return False
        progress = _before_first(connection)
    upper = _upper(connection, progress, marks.high_water)
    if any(_holds(connection, index, progress, upper) for index in indexes):
        # Somebody has filled the index meanwhile, and did not know of its marks. What it holds of the rows between them
        # may be old by now, and nothing twice in it can be taken out again.
        log.warning("an index holds messages that its rebuild has not reached; the rebuild begins anew")
        begin(connection)
        return True
    for index in indexes:
        _fill(connection, index, progress, upper)
    _note_writer(connection, indexes)
    set_mark(connection, PROGRESS_KEY, str(upper))
    if upper < marks.high_water:
        return True
    _finish(connection, indexes, marks.high_water)
    return False


def _fillable(connection: "Connection") -> list[Index]:
    found = layouts(objects(connection))
    if found.get(BASE_INDEX) is not Layout.CURRENT or any(layout is not Layout.CURRENT for layout in found.values()):
        return []
    return [index for index in found if index.is_usable(connection.driver)]


def _holds(connection: "Connection", index: Index, above: int = -_LARGEST, up_to: int = _LARGEST) -> bool:
    """Whether the index holds anything with an id in this range."""
    docsize = f"{index.name}_docsize"
    return bool(connection.sql(f"SELECT 1 FROM {docsize} WHERE id > ? AND id <= ? LIMIT 1", (above, up_to)))


def _before_first(connection: "Connection") -> int:
    return int(connection.sql("SELECT MIN(0, COALESCE(MIN(id), 1) - 1) FROM messages")[0][0])


def _upper(connection: "Connection", progress: int, high_water: int) -> int:
    """Where a step ends: it passes over ids that are not there."""
    first = connection.sql("SELECT MIN(id) FROM messages WHERE id > ? AND id <= ?", (progress, high_water))[0][0]
    return high_water if first is None else min(int(first) + STEP - 1, high_water)


def _fill(connection: "Connection", index: Index, above: int, up_to: int, only: str = "1") -> None:
    """Add messages to an index; what is due is what its own source gives."""
    columns = ", ".join(COLUMNS)
    connection.sql(
        f"INSERT INTO {index.name}(rowid, {columns}) SELECT m.id, {columns} FROM {index.source} AS m "
        f"WHERE m.id > ? AND m.id <= ? AND {only} ORDER BY m.id",
        (above, up_to),
    )


def _note_writer(connection: "Connection", indexes: list[Index]) -> None:
    """Where another SQLite has begun this rebuild, say that the index is of both kinds if they differ."""
    note = read_mark(connection, WRITER_KEY)
    if TRIGRAM_INDEX not in indexes or same_writer(note, connection.driver):
        return
    mine = passes_nul(connection.driver)
    passes = mine if note is not None and writer_passes_nul(note) is mine else None
    set_mark(connection, WRITER_KEY, writer_note(connection.driver, passes_nul=passes))


def _finish(connection: "Connection", indexes: list[Index], high_water: int) -> None:
    lower, upper = max(high_water - SWEPT, -_LARGEST), min(high_water + SWEPT, _LARGEST)
    for index in indexes:
        missing = f"NOT EXISTS (SELECT 1 FROM {index.name}_docsize AS d WHERE d.id = m.id)"
        _fill(connection, index, lower, upper, missing)
    connection.sql("DELETE FROM state_meta WHERE key IN (?, ?)", (HIGH_WATER_KEY, PROGRESS_KEY))
