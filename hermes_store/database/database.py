"""One database file: its writer, its readers, and how both are opened and closed."""

import logging
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from hermes_store.clock import Clock
from hermes_store.database import condition
from hermes_store.database.condition import Identity, identity_of
from hermes_store.database.connection import (
    IN_MEMORY,
    READER_TIMEOUT,
    REPLAYS,
    WRITER_TIMEOUT,
    Connection,
    connect,
)
from hermes_store.database.damage import IndexKeeper
from hermes_store.database.driver import Driver
from hermes_store.database.generation import FileGuard, refuse_deleted_log, refuse_foreign_log
from hermes_store.database.journal import (
    DELETE_MODE_READ_TIMEOUT,
    apply_pragmas,
    probe_journal_mode,
    settle_journal_mode,
)
from hermes_store.database.readers import ReaderPool
from hermes_store.database.translation import INDEX_NAMES
from hermes_store.database.writer import Writer
from hermes_store.errors import (
    CorruptStore,
    IndexDamaged,
    NotADatabase,
    NotWritable,
    OpenFailed,
    ReadOnlyStore,
    StateDbReplacedError,
    StoreClosed,
    StoreLocked,
    WrongProcess,
)
from hermes_store.events import NO_EVENTS, Events, Teller
from hermes_store.settings import Settings

log = logging.getLogger(__name__)


READER_RETRY_AFTER = 60.0  # seconds


class Database:
    """A file with one writing connection and a bounded pool of reading ones; or with reading ones only.

    In WAL mode reads never wait for the writer. In DELETE mode, and in memory, they share its connection.
    """

    def __init__(
        self, path: Path, driver: Driver, settings: Settings, clock: Clock, events: Events = NO_EVENTS
    ) -> None:
        self.path = path
        self.teller = Teller(events)
        self.driver = driver
        self.clock = clock
        self.journal_mode = ""
        self.read_only = False
        self._traits: frozenset[str] = frozenset()
        self._closed = False
        self._no_reader_until = float("-inf")
        self._identity: Identity | None = None
        self._process = clock.process_id()
        self._settings = settings
        self._writer: Writer | None = None
        self._readers: ReaderPool | None = None
        self._prepare_reader: Callable[[Connection], None] | None = None

    @classmethod
    def open_writable(
        cls,
        path: Path,
        *,
        driver: Driver,
        settings: Settings,
        clock: Clock,
        new_file: bool,
        events: Events = NO_EVENTS,
        keeper: Callable[[Teller], IndexKeeper] | None = None,
    ) -> "Database":
        """Connect for writing and settle the journal mode.

        Raises OpenFailed, StoreLocked, CorruptStore, DeletedWalGenerationError. `keeper` makes what the write doors ask
        for the search indexes.
        """
        self = cls(path, driver, settings, clock, events)
        in_memory = str(path) == IN_MEMORY
        if not in_memory and not new_file:
            refuse_deleted_log(path)
            refuse_foreign_log(path, self._application_id)
        connection = self._watched(Connection(connect(path, driver=driver, timeout=WRITER_TIMEOUT), driver))
        try:
            self.journal_mode = settle_journal_mode(connection, new_file=new_file, wanted=settings.journal_mode)
            apply_pragmas(connection)
            if condition.is_corrupt(identity_of(path)) and condition.looks_sound(connection):
                # Restored, or another file with the inode of the damaged one.
                condition.clear(path)
        except BaseException:
            connection.close()
            raise
        has_log = self.journal_mode == "wal"
        self._identity = None if in_memory else identity_of(path)
        self._writer = Writer(
            connection,
            clock,
            guard_patience=settings.guard_patience,
            keeper=keeper(self.teller) if keeper is not None else None,
            file_guard=None if in_memory else FileGuard(path, clock, has_log=has_log),
            teller=self.teller,
        )
        if has_log and not in_memory:
            self._readers = ReaderPool(self._open_reader, settings.reader_limit, path)
        return self

    def _application_id(self) -> int:
        # Read only: whoever closes such a connection copies nothing out of the log.
        connection = Connection(connect(self.path, driver=self.driver, read_only=True), self.driver)
        try:
            return int(connection.sql("PRAGMA application_id")[0][0])
        finally:
            connection.close()

    def _watched(self, connection: Connection) -> Connection:
        connection.slow_after = self._settings.slow_statement
        connection.teller = self.teller
        return connection

    @classmethod
    def open_read_only(
        cls,
        path: Path,
        *,
        driver: Driver,
        settings: Settings,
        clock: Clock,
        events: Events = NO_EVENTS,
        prepare_reader: Callable[[Connection], None] | None = None,
    ) -> "Database":
        """Connect for reading; nothing on disk is changed. Raises OpenFailed, CorruptStore.

        `prepare_reader` is called with every new connection, to adapt it to an older file.
        """
        self = cls(path, driver, settings, clock, events)
        self.read_only = True
        self._prepare_reader = prepare_reader
        refuse_foreign_log(path, self._application_id)
        self._identity = identity_of(path)
        self._readers = ReaderPool(self._open_reader, settings.reader_limit, path)
        try:
            with self.read() as connection:
                self.journal_mode = probe_journal_mode(connection)
        except ReadOnlyStore as exc:
            raise NotWritable(
                f"{path} cannot be read without writing: a writer has crashed and left a journal beside it, or its "
                f"folder is not writable; open it once for writing, in a place that can be written"
            ) from exc
        return self

    @property
    def writer(self) -> Writer:
        """The write doors. Raises ReadOnlyStore on a handle that was opened for reading."""
        if self._writer is None:
            raise ReadOnlyStore(f"attempt to write a readonly database: {self.path} was opened for reading only")
        return self._writer

    def set_traits(self, traits: frozenset[str]) -> None:
        """Tell every connection what this file has that only some files have; before the first reader is made."""
        self._traits = traits
        if self._writer is not None:
            self._writer.connection.traits = traits

    def _open_reader(self) -> Connection:
        # By its path: what stands there now may be another file than the one that this handle has open.
        if self._writer is not None:
            self._writer.check_file()
        elif identity_of(self.path) != self._identity:
            raise StateDbReplacedError(
                f"state.db was replaced underneath this handle: {self.path} is not the file that was opened; close the "
                f"handle and open the store again"
            )
        raw = connect(self.path, driver=self.driver, read_only=True, timeout=READER_TIMEOUT)
        connection = self._watched(Connection(raw, self.driver))
        connection.replays = REPLAYS
        connection.traits = self._traits
        if self._prepare_reader is not None:
            try:
                self._prepare_reader(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def read(self) -> "Snapshot":
        """A connection on one snapshot of the committed data, for a `with` block. Rules READ-1 to READ-3."""
        return Snapshot(self)

    def begin_read(self, holder: object) -> tuple[Connection, Callable[[Connection], None]]:
        """A connection whose snapshot has begun, and what gives it back; `holder` lives as long as the read does."""
        if self._process != self.clock.process_id():
            raise WrongProcess
        if self._closed:
            raise StoreClosed
        writer = self._writer
        pooled = self._pooled_reader()
        if pooled is not None:
            return _begun(pooled, self._return_pooled)
        if writer is None:
            return self._begin_read_only()
        if writer.held_by_this_thread:
            # Inside a unit of this very thread the shared connection shows that unit's own view.
            return writer.connection, _leave_alone
        try:
            shared = writer.take(holder=holder)
            if self.journal_mode != "wal":
                shared.sql(f"PRAGMA busy_timeout={DELETE_MODE_READ_TIMEOUT}")
            shared.sql("BEGIN")
        except BaseException:
            writer.give_back()
            raise
        return shared, partial(self._return_shared, weakref.ref(holder))

    def _begin_read_only(self) -> tuple[Connection, Callable[[Connection], None]]:
        """A reader of a read-only handle, all of whose readers are in use."""
        assert self._readers is not None  # noqa: S101 - such a handle has nothing else
        if self._readers.serves_this_thread():
            # It may be waiting for itself: one more, closed afterwards.
            return _begun(self._open_reader(), _end_and_close)
        pooled = self._readers.wait(self._settings.patience)
        if pooled is None:
            raise StoreLocked(
                f"database is locked: all reading connections to {self.path} that this process may have were in use "
                f"for over {self._settings.patience:.0f} s"
            )
        return _begun(pooled, self._return_pooled)

    def _pooled_reader(self) -> Connection | None:
        if self._readers is None or self.clock.monotonic() < self._no_reader_until:
            return None
        try:
            return self._readers.acquire()
        except OpenFailed as exc:
            if self._writer is None:
                raise
            # Out of descriptors, perhaps. The writer's connection serves.
            log.warning("a reader could not be opened, reads share the writer's connection for a while: %s", exc)
            self.teller.degraded("readers", "a connection could not be opened")
            self._no_reader_until = self.clock.monotonic() + READER_RETRY_AFTER
            return None

    def note_damage(self, connection: Connection) -> None:
        """A read met damage: if it is in the file itself, this process writes no more into it."""
        sql = connection.failed_sql
        if sql and INDEX_NAMES not in sql and not condition.looks_sound(connection):
            condition.note_corrupt(self._identity)

    def _return_pooled(self, connection: Connection) -> None:
        assert self._readers is not None  # noqa: S101 - the connection came from there
        try:
            _end(connection)
        finally:
            self._readers.release(connection, sound=not connection.raw.in_transaction)

    def _return_shared(self, holder: "weakref.ref[object]", connection: Connection) -> None:
        try:
            _end(connection)
            if self.journal_mode != "wal":
                connection.sql(f"PRAGMA busy_timeout={int(WRITER_TIMEOUT * 1000)}")
        finally:
            self.writer.give_back_from(holder())

    def close(self) -> None:
        """Close readers, then checkpoint and close the writer; a second call does nothing."""
        if self._writer is not None:
            self._writer.refuse_nested()
        if self._process != self.clock.process_id():
            return  # an inherited handle is its parent's to close
        self._closed = True
        if self._readers is not None:
            self._readers.close()
        if self._writer is not None:
            self._writer.close()


class Snapshot:
    """The `with` block of one read. A class and not a generator, because every read goes through it."""

    __slots__ = ("__weakref__", "_connection", "_database", "_give_back")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Connection:
        self._connection, self._give_back = self._database.begin_read(self)
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, (CorruptStore, NotADatabase)) and not isinstance(error, IndexDamaged):
            self._database.note_damage(self._connection)
        self._give_back(self._connection)


def _begun(
    connection: Connection, give_back: Callable[[Connection], None]
) -> tuple[Connection, Callable[[Connection], None]]:
    try:
        connection.sql("BEGIN")
    except BaseException:
        give_back(connection)
        raise
    return connection, give_back


def _end(connection: Connection) -> None:
    if connection.raw.in_transaction:
        connection.sql("ROLLBACK")


def _end_and_close(connection: Connection) -> None:
    try:
        _end(connection)
    finally:
        connection.close()


def _leave_alone(connection: Connection) -> None:
    """The connection is in the middle of a unit."""
