"""A connection for as long as one unit or reader lasts.

The connection underneath goes on to the next one; whoever keeps a unit beyond its end must not write into that.
"""

from typing import TYPE_CHECKING

from hermes_store.database.connection import Connection
from hermes_store.errors import HermesStoreError, UnitEnded

if TYPE_CHECKING:
    import sqlalchemy


class Lease(Connection):
    """The same connection, until `end()`; then every call raises UnitEnded."""

    __slots__ = ("_ended", "_inner")

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self._ended = False
        self.raw = inner.raw
        self.driver = inner.driver
        self.traits = inner.traits
        self.slow_after = inner.slow_after
        self.teller = inner.teller
        self.replays = inner.replays
        self._error = inner.driver.module.Error
        self._sa = None

    @property
    def refusal(self) -> type[HermesStoreError] | None:  # type: ignore[override]  # a view of the connection's own
        """Why statements must not run now, or None."""
        return UnitEnded if self._ended else self._inner.refusal

    def connect_sa(self) -> "sqlalchemy.Connection":
        """A SQLAlchemy connection of this lease alone, closed at its end."""
        return self._inner.connect_sa()

    def failure(self, error: BaseException, sql: str = "") -> Exception:
        """Our error for one of the driver; noticed by the connection underneath."""
        return self._inner.failure(error, sql)

    def is_mended(self, failure: Exception) -> bool:
        """Whether damage was mended; by the connection underneath."""
        return self._inner.is_mended(failure)

    def end(self) -> None:
        """From now on nothing runs through this lease."""
        self._ended = True
        if self._sa is not None:
            self._sa.close()
