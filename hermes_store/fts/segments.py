"""How many segments an index has, read from its structure record, and merging them (rules FTS-12 and FTS-13).

Every commit adds a segment to an index. FTS5 merges them by itself, when it likes: in the middle of somebody's append,
and then a level as a whole. So it is told, in the memory of this connection only, to leave that to us, and a door
merges a bounded number of pages when the record says that it is due.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.errors import OperationFailed

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection

log = logging.getLogger(__name__)

FRESH_LIMIT = 64
"""Segments of single commits from which on they are merged. Each makes every search a little slower, and each merge is
paid by one append."""

LEVEL_LIMIT = 8
"""Segments of one of the higher levels from which on they are merged."""

STEP_PAGES = 500
"""Pages that one merge writes: about a hundredth of a second."""

MOST_STEPS = 4
"""Steps at once, however much is due: a twentieth of a second."""

_HOLD = "hermes_store_hold"

_STRUCTURE_ROW = 10
_COOKIE = 4  # bytes at the beginning of a record
_SECOND_FORM = b"\xff\x00\x00\x01"
_PER_SEGMENT = {False: 3, True: 8}
"""Numbers that each form of the record holds of a segment."""

_IN_MEMORY = (("automerge", 0), ("crisismerge", 1000), ("usermerge", LEVEL_LIMIT))
"""`crisismerge` stays as a last resort, far beyond what the steps let grow."""


@dataclass(frozen=True, slots=True)
class Level:
    """One level of an index, and the pages that it has. merging: how many of its segments a merge has begun with."""

    segments: int
    merging: int
    pages: int = 0


def levels(record: bytes) -> list[Level]:
    """The levels of a structure record, that of single commits first. Raises ValueError for bytes that are none."""
    is_second = record[_COOKIE : _COOKIE + len(_SECOND_FORM)] == _SECOND_FORM
    numbers = _numbers(record, _COOKIE + (len(_SECOND_FORM) if is_second else 0))
    try:
        count, _, _ = next(numbers), next(numbers), next(numbers)
        found = []
        for _ in range(count):
            merging, segments = next(numbers), next(numbers)
            pages = 0
            for _ in range(segments):
                _, first, last, *_ = [next(numbers) for _ in range(_PER_SEGMENT[is_second])]
                pages += last - first + 1
            found.append(Level(segments, merging, pages))
    except StopIteration:
        raise ValueError("the structure record of an index ends too early") from None
    return found


def _numbers(record: bytes, position: int) -> Iterator[int]:
    """The numbers of a record, seven bits a byte, the most significant first."""
    value = 0
    for byte in record[position:]:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0


def debt(found: list[Level]) -> int:
    """How many steps of merging are due: 0 for none, more where there are several times the segments that may be."""
    due = 1 if any(level.merging for level in found) else 0
    for number, level in enumerate(found):
        is_fresh = number == 0 and level.pages < STEP_PAGES
        due = max(due, level.segments // (FRESH_LIMIT if is_fresh else LEVEL_LIMIT))
    return min(due, MOST_STEPS)


def read_levels(connection: "Connection", name: str) -> list[Level]:
    """The levels of an index; none where its record cannot be read, which is not for upkeep to deal with."""
    rows = connection.sql(f"SELECT block FROM {name}_data WHERE id = {_STRUCTURE_ROW}")
    if not rows or not isinstance(rows[0][0], bytes):
        return []
    try:
        return levels(rows[0][0])
    except ValueError as exc:
        log.debug("%s: %s", name, exc)
        return []


def merge_step(connection: "Connection", name: str, pages: int) -> None:
    """Merge segments of an index until so many pages are written, inside an open unit."""
    connection.sql(f"INSERT INTO {name}({name}, rank) VALUES ('merge', {pages})")


def hold_merges_back(connection: "Connection", names: Iterable[str]) -> bool:
    """Keep FTS5 from merging by itself, in the memory of this connection alone, inside an open unit.

    FTS5 takes a setting over before it stores it. A temporary trigger keeps it from being stored: other processes,
    which may know nothing of our merging, go on as before, and nothing is written. Holds until a unit is rolled back,
    or somebody changes the schema or a setting. False where no such trigger can be made.
    """
    for name in names:
        trigger = f"{_HOLD}_{name}"
        try:
            connection.sql(
                f"CREATE TEMP TRIGGER IF NOT EXISTS {trigger} BEFORE INSERT ON main.{name}_config "
                f"BEGIN SELECT RAISE(FAIL, 'not stored'); END"
            )
        except OperationFailed as exc:
            log.debug("merges of %s are left to FTS5: %s", name, exc)
            return False
        try:
            for setting, value in _IN_MEMORY:
                _set_unstored(connection, name, setting, value)
        finally:
            if connection.refusal is None:
                connection.sql(f"DROP TRIGGER IF EXISTS temp.{trigger}")
    return True


def _set_unstored(connection: "Connection", name: str, setting: str, value: int) -> None:
    sql = f"INSERT INTO {name}({name}, rank) VALUES ('{setting}', {value})"
    try:
        # Not through the wrapper: that would take the refusal for damage.
        connection.raw.execute(sql)
    except connection.driver.module.IntegrityError as exc:
        if not connection.raw.in_transaction:
            raise connection.failure(exc) from exc
    except connection.driver.module.Error as exc:
        raise connection.failure(exc) from exc
