"""Typed settings, read from the environment."""

import os
from dataclasses import dataclass
from enum import Enum

from hermes_store.errors import InvalidValue


class JournalMode(str, Enum):
    """The journal modes that a store may use."""

    WAL = "wal"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a store is opened.

    driver: name of the SQLite driver module ("sqlite3" or "pysqlite3"), None to choose by capability.
    journal_mode: the mode that new files get where the SQLite library allows it.
    patience: seconds that a unit waits for the write lock.
    transcript_patience: the same for appends, whose loss would lose a turn.
    guard_patience: seconds that a unit waits for a session that is being compressed.
    reader_limit: read-only connections to one file alive at once, over all handles of the process.
    slow_statement: seconds from which on a statement is told of as slow.
    """

    driver: str | None = None
    journal_mode: JournalMode = JournalMode.WAL
    patience: float = 20.0
    transcript_patience: float = 60.0
    guard_patience: float = 5.0
    reader_limit: int = 8
    slow_statement: float = 1.0

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read HERMES_STORE_SQLITE_DRIVER and HERMES_STORE_JOURNAL_MODE.

        Raises InvalidValue when a variable holds a value that is not on offer.
        """
        driver = os.environ.get("HERMES_STORE_SQLITE_DRIVER", "").strip().lower() or None
        mode = os.environ.get("HERMES_STORE_JOURNAL_MODE", "").strip().lower() or JournalMode.WAL.value
        try:
            journal_mode = JournalMode(mode)
        except ValueError:
            raise InvalidValue(f"HERMES_STORE_JOURNAL_MODE is {mode!r}; it can be 'wal' or 'delete'") from None
        return cls(driver=driver, journal_mode=journal_mode)
