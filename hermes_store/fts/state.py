"""Which indexes a connection can ask, and in what state they are (rule FTS-6)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_store.fts.ensure import PARTIAL_KEY, rebuild_pending
from hermes_store.fts.indexes import HIGH_WATER_KEY, INDEXES, Index
from hermes_store.fts.layouts import Layout, layouts, objects, rows_due
from hermes_store.fts.nul_rows import WRITER_KEY, writer_passes_nul
from hermes_store.fts.segments import read_levels

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


@dataclass(frozen=True, slots=True)
class SearchCapability:
    """Whether the index of words, and that of substrings, exist with all their rows.

    past_nul: the index of substrings holds the text behind a NUL too, that is structured messages.
    """

    words: bool
    trigram: bool
    past_nul: bool


@dataclass(frozen=True, slots=True)
class IndexState:
    """One index: how many messages it holds of those that are due, and how many of its triggers are there.

    layout: None where there is no such index. segments: of which every search looks into each.
    """

    name: str
    layout: str | None
    rows: int
    rows_due: int
    triggers: int
    complete: bool
    segments: int

    @property
    def present(self) -> bool:
        """True if there is such an index."""
        return self.layout is not None


_CAPABILITY = (
    f"SELECT (SELECT count(*) FROM state_meta WHERE key = '{HIGH_WATER_KEY}' OR (key = '{PARTIAL_KEY}' AND EXISTS ("
    f"SELECT 1 FROM sqlite_master WHERE name IN ({', '.join(repr(index.name) for index in INDEXES)}) "
    "AND instr(sql, 'tool_name') = 0))), "
    f"(SELECT value FROM state_meta WHERE key = '{WRITER_KEY}'), "
    + ", ".join(
        "(SELECT count(*) FROM sqlite_master WHERE name IN "
        f"({', '.join(repr(name) for name in (index.name, *index.trigger_names))}))"
        for index in INDEXES
    )
)
_PARTS = 4  # a table and its three triggers; without a trigger rows are missing from the index


def capability(connection: "Connection") -> SearchCapability:
    """What can be asked right now; another process may be rebuilding. One statement."""
    pending, writer, words, trigram = connection.sql(_CAPABILITY)[0]
    complete = pending == 0 and connection.driver.has_fts5
    return SearchCapability(
        words=complete and words == _PARTS,
        trigram=complete and trigram == _PARTS and connection.driver.has_trigram,
        past_nul=writer_passes_nul(writer),
    )


def index_states(connection: "Connection") -> list[IndexState]:
    """The state of every index, for people; counts rows."""
    present = objects(connection)
    found = layouts(present)
    pending = rebuild_pending(connection)
    return [_state_of(connection, index, found.get(index), present, pending=pending) for index in INDEXES]


def _state_of(
    connection: "Connection", index: Index, layout: Layout | None, present: dict[str, str], *, pending: bool
) -> IndexState:
    due = connection.sql(f"SELECT count(*) FROM messages AS m WHERE {rows_due(index, layout)}")[0][0]
    there = layout is not None
    rows = connection.sql(f"SELECT count(*) FROM {index.name}_docsize")[0][0] if there else 0
    triggers = sum(name in present for name in index.trigger_names)
    complete = there and not pending and rows == due and triggers == len(index.trigger_names)
    segments = sum(level.segments for level in read_levels(connection, index.name)) if there else 0
    name = layout.value if layout is not None else None
    return IndexState(index.name, name, rows, due, triggers, complete, segments)


def check_indexes(connection: "Connection") -> None:
    """Compare every index with the text of every row; raises CorruptStore where they differ."""
    for index in layouts(objects(connection)):
        index.check(connection)
