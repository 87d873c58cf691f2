"""What a store tells of its work: waits, retries, slow statements, upkeep, repairs (rules EVENT-*).

Nothing here carries a message, a title, or a value that was bound to a statement.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

log = logging.getLogger(__name__)


class Events:
    """Somebody who wants to know. Every method does nothing: override those that matter.

    They are called on the thread that did the work, mostly while it holds the write lock: be quick, and do not call the
    store. What they raise is logged and goes no further. Rule EVENT-1.
    """

    def committed(self, *, waited: float, held: float) -> None:
        """A unit was committed; seconds until it had the lock, and seconds that it held it."""

    def waited(self, *, seconds: float, tries: int) -> None:
        """A unit had to wait for the write lock, or for a session that was being compressed, and got it."""

    def retried(self, *, reason: str, tries: int) -> None:
        """A try came to nothing and another one follows; the reason is the name of an error class."""

    def slow_statement(self, *, sql: str, seconds: float) -> None:
        """A statement took longer than the settings call slow; its text has placeholders for all values."""

    def checkpointed(self, *, seconds: float, pages: int, moved: int) -> None:
        """The log was copied into the file: pages in the log, and pages of these that are in the file now."""

    def merged(self, *, index: str, seconds: float, pages: int) -> None:
        """Segments of a search index were merged, up to so many pages."""

    def repaired(self, *, what: str, how: str) -> None:
        """Something was mended without a word to the caller."""

    def degraded(self, *, what: str, reason: str) -> None:
        """Something works less well from now on; the reason says what brings it back."""


NO_EVENTS = Events()
"""Nobody wants to know."""


@dataclass(slots=True)
class Counters:
    """What one handle has done since it was opened. Rule EVENT-2."""

    commits: int = 0
    rollbacks: int = 0
    waits: int = 0
    seconds_waited: float = 0.0
    retries: int = 0
    slow_statements: int = 0
    checkpoints: int = 0
    merges: int = 0
    repairs: int = 0
    degraded: int = 0

    def copy(self) -> "Counters":
        """The numbers as they are now."""
        return replace(self)


class Teller:
    """Counts what happens and passes it on; an observer that fails disturbs nobody."""

    __slots__ = ("_events", "_listens", "counters")

    def __init__(self, events: Events = NO_EVENTS) -> None:
        self._events = events
        self._listens = events is not NO_EVENTS
        self.counters = Counters()

    def committed(self, waited: float, held: float) -> None:
        """A unit was committed."""
        self.counters.commits += 1
        if self._listens:
            self._tell(lambda: self._events.committed(waited=waited, held=held))

    def rolled_back(self) -> None:
        """A unit was rolled back; its caller knows."""
        self.counters.rollbacks += 1

    def waited(self, seconds: float, tries: int) -> None:
        """A unit had to wait."""
        self.counters.waits += 1
        self.counters.seconds_waited += seconds
        self._tell(lambda: self._events.waited(seconds=seconds, tries=tries))

    def retried(self, reason: BaseException, tries: int) -> None:
        """Another try follows."""
        self.counters.retries += 1
        self._tell(lambda: self._events.retried(reason=type(reason).__name__, tries=tries))

    def slow_statement(self, sql: str, seconds: float) -> None:
        """A statement was slow."""
        self.counters.slow_statements += 1
        self._tell(lambda: self._events.slow_statement(sql=sql, seconds=seconds))

    def checkpointed(self, seconds: float, pages: int, moved: int) -> None:
        """The log was copied into the file."""
        self.counters.checkpoints += 1
        self._tell(lambda: self._events.checkpointed(seconds=seconds, pages=pages, moved=moved))

    def merged(self, index: str, seconds: float, pages: int) -> None:
        """Segments of an index were merged."""
        self.counters.merges += 1
        self._tell(lambda: self._events.merged(index=index, seconds=seconds, pages=pages))

    def repaired(self, what: str, how: str) -> None:
        """Something was mended."""
        self.counters.repairs += 1
        self._tell(lambda: self._events.repaired(what=what, how=how))

    def degraded(self, what: str, reason: str) -> None:
        """Something works less well."""
        self.counters.degraded += 1
        self._tell(lambda: self._events.degraded(what=what, reason=reason))

    def _tell(self, call: Callable[[], None]) -> None:
        if not self._listens:
            return
        try:
            call()
        except Exception:
            # The unit that it was told of is not at fault.
            log.exception("an observer of the store failed")
