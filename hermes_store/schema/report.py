"""What opening a store did to the file."""

import dataclasses
from collections.abc import Callable
from typing import Any

Progress = Callable[[str], None]
"""Is told each step of an upgrade before it begins, in a few words."""


@dataclasses.dataclass(frozen=True, slots=True)
class OpenReport:
    """The changes of one open; all empty when the file was current. Rule SCHEMA-7.

    created: the tables were made. adopted: the file came from Hermes Agent and is now under Alembic too.
    stamp: the schema version that was found, or told from the shape where it was lost; None for a new file.
    revision: the one that the file has now. revisions_run, columns_added, indexes_created: names.
    keys_healed: tables that were built anew because their key was not the one of today. leftovers_adopted: tables that
    an interrupted rebuild of Hermes Agent had left behind, whose rows were taken over.
    search_rebuilt, search_pending: indexes that were filled anew, or left to a later rebuild. triggers_replaced: names.
    rows_reindexed: messages whose index entry was of another SQLite library. rows_repaired: values that were NULL and
    may not be, above all `active` of messages. counters_repaired: sessions whose counters were NULL. titles_cleared:
    ids of sessions that lost a title held twice. backup, quarantined: paths of the copy that was made first, and of
    what was moved aside.
    """

    created: bool = False
    adopted: bool = False
    stamp: int | None = None
    revision: str | None = None
    revisions_run: tuple[str, ...] = ()
    columns_added: tuple[str, ...] = ()
    indexes_created: tuple[str, ...] = ()
    keys_healed: tuple[str, ...] = ()
    leftovers_adopted: tuple[str, ...] = ()
    search_rebuilt: tuple[str, ...] = ()
    search_pending: tuple[str, ...] = ()
    triggers_replaced: tuple[str, ...] = ()
    rows_reindexed: int = 0
    rows_repaired: int = 0
    counters_repaired: int = 0
    titles_cleared: tuple[str, ...] = ()
    backup: str | None = None
    quarantined: str | None = None

    @property
    def changed(self) -> bool:
        """True if anything was done."""
        return self != OpenReport(stamp=self.stamp, revision=self.revision)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {**dataclasses.asdict(self), "changed": self.changed}
