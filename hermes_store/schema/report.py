"""What opening a store did to the file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenReport:
    """The changes of one open; all empty when the file was current.

    created: the tables were made. adopted: the file came from Hermes Agent and is now under Alembic too.
    columns_added, indexes_created: names. rows_reindexed: messages whose index entry was of another SQLite library.
    rows_repaired: messages whose `active` was NULL. titles_cleared: ids of sessions that lost a title held twice.
    """

    created: bool = False
    adopted: bool = False
    revision: str | None = None
    columns_added: tuple[str, ...] = ()
    indexes_created: tuple[str, ...] = ()
    search_rebuilt: tuple[str, ...] = ()
    search_pending: tuple[str, ...] = ()
    rows_reindexed: int = 0
    rows_repaired: int = 0
    titles_cleared: tuple[str, ...] = ()
    quarantined: str | None = None

    @property
    def changed(self) -> bool:
        """True if anything was done."""
        return self != OpenReport(revision=self.revision)
