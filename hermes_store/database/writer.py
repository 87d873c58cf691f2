"""The two write doors: one connection, one transaction at a time, patience instead of failure (rules WRITE-*).

`BEGIN IMMEDIATE` shows contention before any work is done. The busy timeout of the connection is short and the doors
retry with random pauses: SQLite's own back-off is deterministic, so many processes would wake together. COMMIT is
retried as well, because in DELETE mode a reader makes it busy.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hermes_store.clock import Clock
from hermes_store.database.connection import Connection
from hermes_store.errors import (
    CorruptStore,
    DriverFailure,
    NestedUnit,
    SessionCompressionInProgressError,
    StoreClosed,
    StoreLocked,
    UnitEnded,
    UnitLost,
    WrongProcess,
)

log = logging.getLogger(__name__)

RETRY_MIN = 0.020  # seconds between tries
RETRY_MAX = 0.150
SLOW_AFTER = 2.0  # seconds of waiting after which the pauses grow
SLOW_MIN = 0.250
SLOW_MAX = 1.000
CHECKPOINT_EVERY = 50  # commits

T = TypeVar("T")


class Writer:
    """The one writing connection of a store, shared by its threads."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        guard_patience: float,
        cure: Callable[[Connection], bool] | None = None,
    ) -> None:
        self.connection = connection
        self._clock = clock
        self._guard_patience = guard_patience
        # Re-entrant only for its knowledge of the owner: after an interrupt anywhere, whoever holds it can tell.
        self._lock = threading.RLock()
        self._cure = cure
        self._process = clock.process_id()
        connection.refusal = UnitEnded
        self._busy = False  # whether whoever holds the lock is in the middle of something
        self._holder: weakref.ref[object] | None = None
        self._commits = 0
        self._closed = False

    # -- the doors ------------------------------------------------------------------------------------------

    def run(self, body: Callable[[Connection], T], *, patience: float) -> T:
        """Run `body` in a unit of its own and commit. It may run again, after a lock or a guard made it wait.

        `patience`: seconds to wait for the write lock. A live compression lock of another holder is waited for too,
        within its own shorter budget. Raises StoreLocked at the end of the patience, NestedUnit, and whatever the body
        raises, after everything was rolled back. Rules WRITE-1 to WRITE-4.
        """
        wait = Wait(self._clock, patience, self._guard_patience)
        cured = False
        self.refuse_nested()
        while True:
            try:
                self.take(wait)
                return self._attempt(body, wait)
            except (StoreLocked, SessionCompressionInProgressError) as exc:
                reason = exc
            except CorruptStore:
                if cured or not self._cured(wait):
                    raise
                cured = True
                continue
            finally:
                # Here and not only in there: an interrupt may come before the first step of a call.
                self._busy = False
                self.give_back()
            wait.pause_or_raise(reason)

    def _cured(self, wait: "Wait") -> bool:
        """Try to cure what made a body fail; True if the body is worth another try."""
        if self._cure is None:
            return False
        try:
            return self._attempt(self._cure, wait)
        except DriverFailure as exc:
            log.warning("a damaged index could not be cured: %s", exc)
            return False

    @contextmanager
    def transaction(
        self, *, patience: float, guard: Callable[[Connection], None] | None = None
    ) -> Iterator[Connection]:
        """A unit around a `with` body, which runs once. Raises UnitLost if SQLite ended the transaction under it.

        `guard` is called right after BEGIN; while it says that a session is being compressed, the door waits.
        Rules WRITE-1, WRITE-3 and WRITE-5.
        """
        wait = Wait(self._clock, patience, self._guard_patience)
        self.refuse_nested()
        while not self._enter(wait, guard):
            pass
        try:
            yield self.connection
            self._commit(wait)
            self._after_commit()
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._busy = False
            self._leave()

    def _enter(self, wait: "Wait", guard: Callable[[Connection], None] | None) -> bool:
        """Take the connection and begin; False after a pause, when another try is due."""
        entered = False
        try:
            self.take(wait)
            self._begin()
            if guard is not None:
                guard(self.connection)
            entered = True
        except (StoreLocked, SessionCompressionInProgressError) as exc:
            reason = exc
        finally:
            if not entered and self._owns_lock:
                try:
                    self._roll_back()
                finally:
                    self._leave()
        if not entered:
            wait.pause_or_raise(reason)
        return entered

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """The connection for this thread alone, without a transaction."""
        self.refuse_nested()
        try:
            yield self.take()
        finally:
            self._busy = False
            self.give_back()

    def refuse_nested(self) -> None:
        """Raise NestedUnit where this thread has the connection already."""
        if self.held_by_this_thread:
            raise NestedUnit

    def take(self, wait: "Wait | None" = None, holder: object = None) -> Connection:
        """The connection for this thread alone, until `give_back`, or until nobody has the `holder` any more.

        Raises StoreLocked when the patience ends.
        """
        self.check_open()
        if self._owns_lock:
            pass  # an interrupt kept the last unit of this thread from giving it back
        elif wait is None:
            self._lock.acquire()
        elif not self._lock.acquire(timeout=wait.remaining()):
            raise StoreLocked("database is locked: another thread of this process is writing")
        if self._closed:
            # Closed while this thread waited.
            self._lock.release()
            raise StoreClosed
        if self.connection.raw.in_transaction:
            # Left behind by an interrupt that came between two steps of ending it.
            self._roll_back()
        self._holder = None if holder is None else weakref.ref(holder)
        self._busy = True
        self.connection.refusal = None
        return self.connection

    def give_back(self) -> None:
        """Let the next thread have the connection; nothing where this thread has not got it."""
        if self._owns_lock:
            self._busy = False
            try:
                self.connection.refusal = UnitEnded
            finally:
                self._lock.release()

    def _leave(self) -> None:
        self.connection.in_unit = False
        self.give_back()

    @property
    def _owns_lock(self) -> bool:
        return self._lock._is_owned()  # type: ignore[attr-defined, no-any-return]  # noqa: SLF001 - as Condition does

    @property
    def held_by_this_thread(self) -> bool:
        """True inside a unit, or a reader on this connection, of the calling thread."""
        holder = self._holder
        return self._owns_lock and self._busy and (holder is None or holder() is not None)

    def check_open(self) -> None:
        """Raise WrongProcess in a forked child, StoreClosed after close()."""
        if self._process != self._clock.process_id():
            raise WrongProcess
        if self._closed:
            raise StoreClosed

    # -- one attempt ----------------------------------------------------------------------------------------

    def _attempt(self, body: Callable[[Connection], T], wait: "Wait") -> T:
        connection = self.connection
        try:
            self._begin()
            result = body(connection)
            self._commit(wait)
        except UnitLost as lost:
            self._roll_back()
            # The body may run again, or the caller wants SQLite's reason: here it is the cause that counts.
            if lost.reason is not None:
                raise lost.reason  # noqa: B904 - it names its own cause
            raise
        except BaseException:
            self._roll_back()
            raise
        self._after_commit()
        return result

    def _begin(self) -> None:
        self.connection.sql("BEGIN IMMEDIATE")
        self.connection.in_unit = True

    def _commit(self, wait: "Wait") -> None:
        connection = self.connection
        if self._process != self._clock.process_id():
            raise WrongProcess
        if connection.refusal is not None or not connection.raw.in_transaction:
            raise UnitLost
        while True:
            try:
                connection.sql("COMMIT")
            except StoreLocked as exc:
                # Nothing is lost while the transaction lives: only the COMMIT is tried again.
                wait.pause_or_raise(exc)
            else:
                connection.in_unit = False
                return

    def _roll_back(self) -> None:
        connection = self.connection
        if self._closed:
            return  # and with it every transaction
        if self._process != self._clock.process_id():
            return  # a forked child came out of its copy of the body; the transaction is its parent's
        connection.in_unit = False
        connection.refusal = None
        if connection.raw.in_transaction:
            try:
                connection.sql("ROLLBACK")
            except DriverFailure as exc:
                # The error that led here is already on its way to the caller.
                log.warning("rollback failed: %s", exc)

    # -- after a commit -------------------------------------------------------------------------------------

    def _after_commit(self) -> None:
        self._commits += 1
        if self._commits % CHECKPOINT_EVERY == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """A passive checkpoint: blocks nobody; a failure is only logged."""
        try:
            self.connection.sql("PRAGMA wal_checkpoint(PASSIVE)")
        except DriverFailure as exc:
            log.warning("checkpoint failed: %s", exc)

    def close(self) -> None:
        """Checkpoint and close; a second call does nothing."""
        if self._closed or self._process != self._clock.process_id():
            return  # an inherited handle is its parent's to close
        with self.exclusive():
            self.checkpoint()
            self._closed = True
            self.connection.close()


class Wait:
    """How long one call has waited, and how long it still may."""

    def __init__(self, clock: Clock, patience: float, guard_patience: float) -> None:
        self._clock = clock
        self._patience = patience
        self._guard_patience = guard_patience
        self._started = clock.monotonic()
        self._guarded_since: float | None = None

    def remaining(self) -> float:
        """Seconds that are left, at least a moment: the first try is always made."""
        return max(0.001, self._started + self._patience - self._clock.monotonic())

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
        slow = now - self._started >= SLOW_AFTER
        pause = self._clock.jitter(SLOW_MIN, SLOW_MAX) if slow else self._clock.jitter(RETRY_MIN, RETRY_MAX)
        self._clock.sleep(max(0.001, min(pause, deadline - now)))
