"""Events as log records (rule EVENT-3)."""

import logging

from hermes_store.events import Events

LOGGER = "hermes_store.events"
"""The name of the logger."""


class EventLog(Events):
    """Writes what a store tells into the log: what happens all the time at DEBUG, what somebody should see above it."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log = logger if logger is not None else logging.getLogger(LOGGER)

    def committed(self, *, waited: float, held: float) -> None:
        """At DEBUG."""
        self._log.debug("committed: waited %.4f s, held the lock %.4f s", waited, held)

    def waited(self, *, seconds: float, tries: int) -> None:
        """At INFO."""
        self._log.info("waited %.3f s for the write lock, %d tries", seconds, tries)

    def retried(self, *, reason: str, tries: int) -> None:
        """At DEBUG."""
        self._log.debug("try %d came to nothing: %s", tries + 1, reason)

    def slow_statement(self, *, sql: str, seconds: float) -> None:
        """At WARNING, with the text of the statement and without its values."""
        self._log.warning("a statement took %.3f s: %s", seconds, sql)

    def checkpointed(self, *, seconds: float, pages: int, moved: int) -> None:
        """At DEBUG."""
        self._log.debug("checkpoint: %d of %d pages of the log are in the file, %.4f s", moved, pages, seconds)

    def merged(self, *, index: str, seconds: float, pages: int) -> None:
        """At DEBUG."""
        self._log.debug("merged segments of %s, at most %d pages, %.4f s", index, pages, seconds)

    def repaired(self, *, what: str, how: str) -> None:
        """At WARNING."""
        self._log.warning("repaired %s: %s", what, how)

    def degraded(self, *, what: str, reason: str) -> None:
        """At WARNING."""
        self._log.warning("%s works less well: %s", what, reason)
