"""The two write doors: one connection, one transaction at a time, patience instead of failure (rules WRITE-*).

`BEGIN IMMEDIATE` shows contention before any work is done. The busy timeout of the connection is short and the doors
retry with random pauses: SQLite's own back-off is deterministic, so many processes would wake together. COMMIT is
retried as well, because in DELETE mode a reader makes it busy.

A unit that meets damage is rolled back and run again after the search indexes were mended, in the same transaction: if
it fails even then, the damage is in the file itself, and nothing was changed (rules DAMAGE-4 to DAMAGE-6).
"""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hermes_store.clock import Clock
from hermes_store.database.connection import Connection
from hermes_store.database.damage import Damage, IndexKeeper
from hermes_store.database.generation import FileGuard
from hermes_store.database.waiting import Wait
from hermes_store.errors import (
    DiskFailure,
    HermesStoreError,
    NestedUnit,
    SessionCompressionInProgressError,
    StoreClosed,
    StoreLocked,
    UnitEnded,
    UnitLost,
    WrongProcess,
)
from hermes_store.events import Teller

log = logging.getLogger(__name__)

CHECKPOINT_EVERY = 50  # commits

_LOOK_AGAIN = 1.0  # seconds after which a thread that waits for another one asks whether that still has anything

_left_open: list[Connection] = []
"""Connections that must not be closed, since SQLite would copy their log into the file."""

T = TypeVar("T")


class Writer:
    """The one writing connection of a store, shared by its threads."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        *,
        guard_patience: float,
        keeper: IndexKeeper | None = None,
        file_guard: FileGuard | None = None,
        teller: Teller | None = None,
    ) -> None:
        self.connection = connection
        self.teller = teller if teller is not None else Teller()
        self._clock = clock
        self._guard_patience = guard_patience
        # Re-entrant only for its knowledge of the owner: after an interrupt anywhere, whoever holds it can tell.
        self._lock = threading.RLock()
        self._rescuing = threading.Lock()
        self._keeper = keeper
        self._file_guard = file_guard
        self.damage = Damage(keeper, file_guard, self.teller)
        self._process = clock.process_id()
        connection.refusal = UnitEnded
        self._busy = False  # whether whoever holds the lock is in the middle of something
        self._holder: weakref.ref[object] | None = None
        self._commits = 0
        self._begun = 0.0
        self._waited = 0.0
        self._closed = False

    # -- the doors ------------------------------------------------------------------------------------------

    def run(self, body: Callable[[Connection], T], *, patience: float, meets_damage: bool = False) -> T:
        """Run `body` in a unit of its own and commit. It may run again, after a lock or a guard made it wait.

        `patience`: seconds to wait for the write lock. A live compression lock of another holder is waited for too,
        within its own shorter budget. meets_damage: the body looks for damage and deals with it itself. Raises
        StoreLocked at the end of the patience, NestedUnit, StateDbReplacedError, StateDbCorruptError, and whatever the
        body raises, after everything was rolled back. Rules WRITE-1 to WRITE-4.
        """
        wait = Wait(self._clock, patience, self._guard_patience)
        failures = 0
        self.refuse_nested()
        while True:
            try:
                self.take(wait)
                return self._attempt(body, wait, failures=failures, meets_damage=meets_damage)
            except (StoreLocked, SessionCompressionInProgressError) as exc:
                reason = exc
            except HermesStoreError as exc:
                if self.damage.failed(exc, self.connection) is None:
                    raise
                self.teller.retried(exc, wait.tries)
                failures += 1
                continue
            finally:
                # Here and not only in there: an interrupt may come before the first step of a call.
                self._busy = False
                self.give_back()
            self.teller.retried(reason, wait.tries)
            wait.pause_or_raise(reason)

    @contextmanager
    def transaction(
        self, *, patience: float, guard: Callable[[Connection], None] | None = None
    ) -> Iterator[Connection]:
        """A unit around a `with` body, which runs once. Raises UnitLost if it cannot be kept.

        That is where SQLite ended the transaction under it, and where damage that it met could not be mended in place;
        the next unit mends it. `guard` is called right after BEGIN; while it says that a session is being compressed,
        the door waits. Rules WRITE-1, WRITE-3 and WRITE-5.
        """
        wait = Wait(self._clock, patience, self._guard_patience)
        self.refuse_nested()
        while not self._enter(wait, guard):
            pass
        try:
            yield self.connection
            self._commit(wait)
            self._after_commit()
        except BaseException as exc:
            self._roll_back()
            if isinstance(exc, UnitLost) and exc.reason is None:
                exc.reason = self.connection.lost_to
            damage = self.damage.failed(exc, self.connection)
            if damage is not None and not isinstance(exc, UnitLost):
                lost = UnitLost(f"this unit met damage and was rolled back; the next one mends it: {damage}")
                lost.reason = damage
                raise lost from exc
            raise
        finally:
            self._busy = False
            self._leave()

    def _enter(self, wait: "Wait", guard: Callable[[Connection], None] | None) -> bool:
        """Take the connection and begin; False after a pause, when another try is due."""
        entered = False
        try:
            self.take(wait)
            self._begin(wait)
            if guard is not None:
                guard(self.connection)
            entered = True
        except (StoreLocked, SessionCompressionInProgressError) as exc:
            reason = exc
        except HermesStoreError as exc:
            self._roll_back()
            if self.damage.failed(exc, self.connection) is None:
                raise
            return False
        finally:
            if not entered and self._owns_lock:
                try:
                    self._roll_back()
                finally:
                    self._leave()
        if not entered:
            self.teller.retried(reason, wait.tries)
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
        while True:
            if not self._owns_lock:  # else an interrupt kept the last unit of this thread from giving it back
                self._acquire(wait)
            with self._rescuing:
                if self._owns_lock:
                    # From here on nobody takes it for that of a reader which is gone.
                    self._holder = None
                    break
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

    def _acquire(self, wait: "Wait | None") -> None:
        """Take the lock; a reader that nobody has any more, and whose thread may have ended, does not keep it."""
        deadline = time.monotonic() + (float("inf") if wait is None else wait.remaining())
        while True:
            remaining = deadline - time.monotonic()
            if self._lock.acquire(timeout=max(0.0, min(remaining, _LOOK_AGAIN))):
                return
            with self._rescuing:
                if self._holder is not None and self._holder() is None:
                    self._holder = None
                    self._take_from_its_owner()
                    continue
            if remaining <= _LOOK_AGAIN:
                raise StoreLocked("database is locked: another thread of this process is writing")

    def _take_from_its_owner(self) -> None:
        """Release the lock that a reader took in another thread."""
        self._lock._release_save()  # type: ignore[attr-defined]  # noqa: SLF001 - as Condition does

    def give_back(self) -> None:
        """Let the next thread have the connection; nothing where this thread has not got it."""
        if self._owns_lock:
            self._busy = False
            try:
                self.connection.refusal = UnitEnded
            finally:
                self._lock.release()

    def give_back_from(self, holder: object) -> None:
        """The same for a reader that may have come to another thread."""
        with self._rescuing:
            if self._owns_lock or self._holder is None or self._holder() is not holder:
                self.give_back()
                return
            self._holder = None
            self._busy = False
            self.connection.refusal = UnitEnded
            self._take_from_its_owner()

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

    def _attempt(self, body: Callable[[Connection], T], wait: Wait, *, failures: int, meets_damage: bool) -> T:
        connection = self.connection
        try:
            self._begin(wait, failures=failures, meets_damage=meets_damage)
            result = body(connection)
            self._commit(wait)
        except UnitLost as lost:
            self._roll_back()
            # The body may run again, or the caller wants SQLite's reason: here it is the cause that counts.
            reason = lost.reason or connection.lost_to
            if reason is not None:
                raise reason  # noqa: B904 - it names its own cause
            raise
        except BaseException:
            self._roll_back()
            raise
        self._after_commit()
        return result

    def _begin(self, wait: Wait, *, failures: int = 0, meets_damage: bool = False) -> None:
        connection = self.connection
        self.damage.refuse()
        try:
            connection.sql("BEGIN IMMEDIATE")
        except DiskFailure:
            # Nothing was begun; in WAL mode a checkpoint of somebody else can look like this.
            connection.sql("BEGIN IMMEDIATE")
        connection.in_unit = True
        connection.lost_to = None
        self._begun = self._clock.monotonic()
        self._waited = wait.elapsed()
        self.check_file()
        self.damage.begin(connection, failures=failures)
        if not meets_damage:
            connection.on_damage = self._met_damage
        if wait.tries:
            self.teller.waited(self._waited, wait.tries)

    def _met_damage(self, failure: HermesStoreError) -> bool:
        return self.damage.met(self.connection, failure)

    def _commit(self, wait: Wait) -> None:
        connection = self.connection
        if self._process != self._clock.process_id():
            raise WrongProcess
        if connection.refusal is not None or not connection.raw.in_transaction:
            raise UnitLost
        if self._keeper is not None:
            self._keeper.seal(connection)
        self.damage.require_whole()
        while True:
            try:
                connection.sql("COMMIT")
            except StoreLocked as exc:
                # Nothing is lost while the transaction lives: only the COMMIT is tried again.
                self.teller.retried(exc, wait.tries)
                wait.pause_or_raise(exc)
            else:
                connection.in_unit = False
                connection.on_damage = None
                return

    def _roll_back(self) -> None:
        connection = self.connection
        if self._closed:
            return  # and with it every transaction
        if self._process != self._clock.process_id():
            return  # a forked child came out of its copy of the body; the transaction is its parent's
        if connection.in_unit:
            self.teller.rolled_back()
            if self._keeper is not None:
                self._keeper.shaken()
        connection.in_unit = False
        connection.on_damage = None
        connection.refusal = None
        if connection.raw.in_transaction:
            try:
                connection.sql("ROLLBACK")
            except HermesStoreError as exc:
                # The error that led here is already on its way to the caller.
                log.warning("rollback failed: %s", exc)

    # -- after a commit -------------------------------------------------------------------------------------

    def _after_commit(self) -> None:
        self.damage.committed()
        self.teller.committed(self._waited, self._clock.monotonic() - self._begun)
        self._commits += 1
        if self._commits % CHECKPOINT_EVERY == 0:
            self.checkpoint()

    def checkpoint(self) -> None:
        """A passive checkpoint: blocks nobody; a failure is only logged."""
        began = self._clock.monotonic()
        try:
            found = self.connection.sql("PRAGMA wal_checkpoint(PASSIVE)")
        except HermesStoreError as exc:
            log.warning("checkpoint failed: %s", exc)
            return
        _, pages, moved = found[0]
        if pages >= 0:  # else there is no log
            self.teller.checkpointed(self._clock.monotonic() - began, pages, moved)

    def refuse_unfit(self) -> None:
        """Raise StateDbCorruptError or StateDbReplacedError where nothing may be written any more."""
        self.damage.refuse()
        self.check_file()

    def check_file(self) -> None:
        """Raise StateDbReplacedError if the file, or its log, is not what this handle has open any more."""
        if self._file_guard is not None:
            self._file_guard.check()

    def serve(self) -> None:
        """The store is open: from now on its file is watched, and damage is for life."""
        self.damage.is_serving = True
        self.take_log()

    def take_log(self) -> None:
        """The log may have been made anew by this handle itself."""
        if self._file_guard is not None:
            self._file_guard.record()

    def close(self) -> None:
        """Checkpoint and close; a second call does nothing."""
        if self._closed or self._process != self._clock.process_id():
            return  # an inherited handle is its parent's to close
        try:
            self._close()
        except StoreClosed:
            return  # by another thread, meanwhile

    def _close(self) -> None:
        with self.exclusive() as connection:
            if not self._may_checkpoint():
                # What the log holds must not go into the file: SQLite would copy it there as the last one closes.
                self._closed = True
                _left_open.append(connection)
                return
            self._last_upkeep(connection)
            self.checkpoint()
            self._closed = True
            connection.close()

    def _last_upkeep(self, connection: Connection) -> None:
        """Processes that live for a few commits do their share of the merging, if nobody else is writing."""
        try:
            if self._keeper is not None and self._keeper.wants_upkeep(connection):
                connection.sql("PRAGMA busy_timeout=0")
                connection.sql("BEGIN IMMEDIATE")
                self._keeper.upkeep(connection)
                connection.sql("COMMIT")
        except HermesStoreError as exc:
            log.debug("nothing was merged at the end: %s", exc)
        finally:
            self._roll_back()

    def _may_checkpoint(self) -> bool:
        guard = self._file_guard
        if guard is None or not guard.has_log:
            return True
        return not self.damage.is_final and not guard.has_changed()
