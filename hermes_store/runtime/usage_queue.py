"""A queue of usage reports: whoever has called a model goes on at once, and one thread stores what is reported.

The thread is a daemon, so a hook at the end of the interpreter stores what is left. That hook knows the queues by weak
references only. A queue that still has a thread lives as long as that does: nothing that was accepted is lost because
its owner forgot to close.
"""

import atexit
import logging
import os
import threading
import time
import weakref
from collections import deque

from hermes_store.errors import (
    DiskFailure,
    DiskFull,
    DriverFailure,
    InvalidValue,
    NestedUnit,
    ReadOnlyStore,
    StateDbCorruptError,
    StateDbReplacedError,
    StoreClosed,
    StoreLocked,
    WrongProcess,
)
from hermes_store.runtime.usage_reports import UsageReport, coalesce
from hermes_store.store import Store, Unit

log = logging.getLogger(__name__)

THREAD_NAME = "session-db-token-writer"
IDLE = 30.0  # seconds without work after which the thread retires
FLUSH = 5.0  # seconds that a flush waits
JOIN = 10.0  # seconds that close() waits for the thread
CHUNK = 100  # reports in one unit

_PASSING = (StoreLocked, DiskFull, DiskFailure, NestedUnit)
"""Errors that say nothing about a report: it is tried again later."""
_FINAL = (StoreClosed, WrongProcess, ReadOnlyStore, StateDbReplacedError, StateDbCorruptError)
"""Errors that every further report of this handle would meet too."""

_live: "weakref.WeakSet[UsageQueue]" = weakref.WeakSet()


class UsageQueue:
    """Stores reports of usage in the background, in the order in which they came (rules RUNTIME-1 to RUNTIME-4).

    Thread safety: any method, from any thread. `idle`: seconds without work after which the thread retires; the next
    report starts another one. Failures are logged as warnings and never raised.
    """

    def __init__(self, store: Store, *, idle: float = IDLE) -> None:
        self._store = store
        self._idle = idle
        self._closing = False  # nothing is accepted any more
        self._ended = False  # a close has come to its end, whatever it left; one that was interrupted has not
        self._begin_anew()
        _live.add(self)

    def _begin_anew(self) -> None:
        # The lock is re-entrant: the garbage collector may close a handle in a thread that holds it.
        self._changed = threading.Condition()
        self._ending = threading.RLock()  # held by whoever closes
        self._thread: threading.Thread | None = None
        self._entries: deque[UsageReport] = deque()
        self._taken: list[UsageReport] = []  # by whoever is storing; what could not be stored yet stays here
        self._queued = 0  # reports that were accepted, ever
        self._done = 0  # reports of those that are stored or given up: always the first ones
        self._storer: threading.Thread | None = None  # whoever is storing
        self._asked = False  # whether somebody wants what was left over to be tried again now
        self._failures = 0  # tries that left something over

    @property
    def pending(self) -> int:
        """How many reports are neither stored nor given up."""
        # In this order the difference is never too small.
        done = self._done
        return self._queued - done

    # -- what callers do ------------------------------------------------------------------------------------

    def put(self, report: UsageReport) -> bool:
        """Accept a report; never waits for the database. False once the queue is closed: nothing was accepted then."""
        with self._changed:
            if self._closing:
                return False
            self._entries.append(report)
            self._queued += report.reports
            self._start_thread()
            self._changed.notify_all()
        return True

    def flush(self, timeout: float | None = FLUSH) -> bool:
        """Wait until everything that was queued before this call is stored. Rule RUNTIME-3.

        `timeout` in seconds, None is the default; InvalidValue for what is no number, and nothing else is raised.
        False if something is not stored yet: at the end of the time, after a failure that may pass, and at once inside
        a unit of this thread, which keeps everybody else from writing. Without a living thread the caller stores
        everything.
        """
        timeout = flush_seconds(timeout)
        target = self._queued
        if self._done >= target:
            return True
        deadline = time.monotonic() + timeout
        if self._ended or self._stores_here:
            return False
        if timeout > 0 and self._thread_lives and self._store.in_unit:
            return False
        with self._changed:
            failures = self._failures
            self._asked = True
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._done >= target or self._failures != failures or not self._is_served,
                timeout,
            )
            if self._done >= target:
                return True
            if self._failures != failures or self._is_served:
                return False
        self._drain(self._patience, deadline=deadline)
        return self._done >= target

    def settle(self) -> None:
        """Store everything that was queued before this call on this thread: what follows must not overtake it.

        Waits as long as a write of a transcript does. Raises StoreLocked if that was not enough, or what else keeps the
        reports from being stored; NestedUnit inside a unit of this thread. They stay queued then. Rule RUNTIME-3.
        """
        target = self._queued
        if self._done >= target:
            return
        if self._stores_here or self._store.in_unit:
            raise NestedUnit
        failure = self._drain(self._patience, deadline=time.monotonic() + self._patience)
        if self._done >= target:
            return
        if failure is not None:
            raise failure
        raise StoreLocked(f"database is locked: {self.pending} report(s) of usage that came before are still waiting")

    def close(self, timeout: float = JOIN) -> None:
        """Stop the thread and store what is left on this one; does nothing once nothing is left. Rule RUNTIME-4.

        `timeout`: seconds that the thread is waited for. If it is stuck for longer, a warning says how many reports
        are not stored. While another thread closes, that is waited for. What was left by a close that was interrupted,
        or could not store, is stored by the next one. Raises NestedUnit inside a unit of this thread, and on the
        queue's own thread (where the garbage collector may come by), when there is something left to store; the queue
        then stays as it is.
        """
        if self.pending and (self._stores_here or self._store.in_unit):
            raise NestedUnit
        # As long as whoever holds it may wait for the thread, for its turn, and for the lock.
        if self._ending.acquire(timeout=min(2 * timeout + self._patience, threading.TIMEOUT_MAX)):
            try:
                self._close(timeout)
            finally:
                self._ending.release()
        elif self.pending:
            self._tell_left()

    def _close(self, timeout: float) -> None:
        with self._changed:
            if self._ended and not self.pending:
                return
            self._closing = True
            thread = self._thread
            self._changed.notify_all()
        own = thread is threading.current_thread()
        if thread is not None and not own:
            thread.join(timeout)
        if own or thread is None or not thread.is_alive():
            self._drain(self._patience, turn=timeout)
        self._ended = True
        if self.pending:
            self._tell_left()
        _live.discard(self)

    def _tell_left(self) -> None:
        log.warning("closing the queue of usage: %d report(s) were not stored", self.pending)

    # -- the thread -----------------------------------------------------------------------------------------

    @property
    def _stores_here(self) -> bool:
        """Whether this thread is the queue's own, or is storing already, as where a signal or the collector cuts in."""
        return threading.current_thread() in (self._thread, self._storer)

    @property
    def _is_served(self) -> bool:
        return self._storer is not None or self._thread_lives

    @property
    def _thread_lives(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _start_thread(self) -> None:
        if self._thread_lives:
            return
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as exc:
            self._thread = None
            log.warning("no thread for the queue of usage (%s): the reports wait for a flush", exc)

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._drain(self._patience)
        finally:
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None
                self._changed.notify_all()

    def _wait_for_work(self) -> bool:
        """Wait; False when this thread is to end, and then it is the queue's no more."""
        with self._changed:
            while not self._closing:
                if self._entries or (self._asked and self._taken):
                    return True
                noticed = self._changed.wait(self._idle)
                if not noticed and not self._entries and not self._closing:
                    if self._taken:
                        return True  # what could not be stored is tried again from time to time
                    break
            self._thread = None
            return False

    # -- storing --------------------------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        return self._store.settings.transcript_patience

    def _drain(self, patience: float, *, turn: float | None = None, deadline: float | None = None) -> Exception | None:
        """Store everything on this thread, waiting `patience` seconds for the lock; what has to wait stays queued.

        `turn`: seconds to wait while another thread is storing. `deadline`: the end of both waits. Returns the error
        that makes the rest wait, None without one, and where another thread goes on storing.
        """
        me = threading.current_thread()
        if self._storer is me:
            return None
        try:
            with self._changed:
                if deadline is not None:
                    turn = max(0.0, deadline - time.monotonic())
                if not self._changed.wait_for(lambda: self._storer is None, turn):
                    return None
                self._storer = me
                self._asked = False
                self._taken = [*self._taken, *self._entries]
                self._entries.clear()
            if deadline is not None:
                patience = min(patience, max(0.0, deadline - time.monotonic()))
            self._coalesce()
            return self._store_taken(patience)
        finally:
            with self._changed:
                if self._storer is me:
                    self._storer = None
                    if self._taken:
                        self._failures += 1
                    self._changed.notify_all()

    def _coalesce(self) -> None:
        try:
            self._taken = coalesce(self._taken)
        except Exception as exc:  # noqa: BLE001 - then they are stored one by one as they came
            log.warning("usage could not be added up before it is stored: %s", type(exc).__name__)

    def _store_taken(self, patience: float) -> Exception | None:
        # Where an interrupt ends this, what is not known to be stored stays: better counted twice than not at all.
        alone = 0  # how many of the next reports get a unit of their own, because one among them fails
        while self._taken:
            chunk = self._taken[: 1 if alone else CHUNK]
            try:
                self._store_unit(chunk, patience)
            except NestedUnit as exc:
                return exc
            except Exception as exc:  # noqa: BLE001 - whatever it is, it is told, and the others are stored
                if self._may_pass(exc):
                    log.warning("usage could not be stored yet, %d report(s) wait: %s", self.pending, exc)
                    return exc
                if isinstance(exc, _FINAL):
                    log.warning("%d report(s) of usage are lost: %s", _reports(self._taken), exc)
                    self._settle(self._taken)
                    return None
                if len(chunk) > 1:
                    alone = len(chunk)
                    continue
                _tell_lost(chunk[0], exc)
            alone = max(0, alone - 1)
            self._settle(chunk)
        return None

    def _store_unit(self, reports: list[UsageReport], patience: float) -> None:
        def record(unit: Unit) -> None:
            for report in reports:
                unit.record_usage(report.session_id, report.usage, absolute=report.absolute)

        self._store.write(record, patience=patience)

    def _settle(self, reports: list[UsageReport]) -> None:
        with self._changed:
            self._taken = self._taken[len(reports) :]
            self._done += _reports(reports)
            self._changed.notify_all()

    def _may_pass(self, exc: Exception) -> bool:
        # A file system that is mounted read-only may be mended; a handle that only reads stays one.
        return isinstance(exc, _PASSING) or (isinstance(exc, ReadOnlyStore) and not self._store.read_only)


def flush_seconds(timeout: object) -> float:
    """Seconds that a flush may take, 0 at least; None is the default. Raises InvalidValue for what is no number."""
    if timeout is None:
        return FLUSH
    try:
        if isinstance(timeout, str | bytes | bytearray):
            raise TypeError
        seconds = float(timeout)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(f"timeout is of type {type(timeout).__name__}; give a number of seconds") from None
    return min(max(0.0, seconds), threading.TIMEOUT_MAX)


def tell_refused(session_id: object, exc: Exception) -> None:
    """Log that a report was given up, without what it holds."""
    # Only the driver's messages are known to hold no value that somebody gave.
    log.warning(
        "usage of session %r could not be stored: %s",
        session_id,
        exc if isinstance(exc, DriverFailure) else type(exc).__name__,
    )
    log.debug("usage of session %r", session_id, exc_info=exc)


def _tell_lost(report: UsageReport, exc: Exception) -> None:
    tell_refused(report.session_id, exc)


def _reports(reports: list[UsageReport]) -> int:
    return sum(report.reports for report in reports)


# -- the end of the interpreter, and forks ------------------------------------------------------------------


def _close_all() -> None:
    for queue in list(_live):
        try:
            queue.close()
        except NestedUnit:
            log.warning(
                "the interpreter ends inside a unit or a reader: %d report(s) of usage are not stored", queue.pending
            )


def _forget_all() -> None:
    """In a forked child: the reports are its parent's, and so is the thread; a lock may be held by nobody."""
    for queue in list(_live):
        queue._begin_anew()  # noqa: SLF001 - this module's own


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
