"""How long a write door waits, and the pauses between its tries (rule WRITE-2)."""

from hermes_store.clock import Clock
from hermes_store.errors import SessionCompressionInProgressError, StoreLocked

RETRY_MIN = 0.020  # seconds between tries
RETRY_MAX = 0.150
SLOW_AFTER = 2.0  # seconds of waiting after which the pauses grow
SLOW_MIN = 0.250
SLOW_MAX = 1.000


class Wait:
    """How long one call has waited, and how long it still may."""

    def __init__(self, clock: Clock, patience: float, guard_patience: float) -> None:
        self._clock = clock
        self._patience = patience
        self._guard_patience = guard_patience
        self._started = clock.monotonic()
        self._guarded_since: float | None = None
        self.tries = 0  # that came to nothing

    def remaining(self) -> float:
        """Seconds that are left, at least a moment: the first try is always made."""
        return max(0.001, self._started + self._patience - self._clock.monotonic())

    def elapsed(self) -> float:
        """Seconds since the call began."""
        return self._clock.monotonic() - self._started

    def pause_or_raise(self, reason: StoreLocked | SessionCompressionInProgressError) -> None:
        """Sleep a random while, never past the deadline; at the deadline raise what the caller gets to see."""
        now = self._clock.monotonic()
        deadline = self._started + self._patience
        if isinstance(reason, SessionCompressionInProgressError):
            if self._guarded_since is None:
                self._guarded_since = now
            deadline = min(deadline, self._guarded_since + self._guard_patience)
        if now >= deadline:
            if isinstance(reason, StoreLocked):
                raise StoreLocked(
                    f"database is locked (another process held the write lock for over {self._patience:.0f} s; a "
                    f"long maintenance operation is likely, and the store itself is healthy)"
                ) from (reason.__cause__ or reason)
            raise reason
        self.tries += 1
        slow = now - self._started >= SLOW_AFTER
        pause = self._clock.jitter(SLOW_MIN, SLOW_MAX) if slow else self._clock.jitter(RETRY_MIN, RETRY_MAX)
        self._clock.sleep(max(0.001, min(pause, deadline - now)))
