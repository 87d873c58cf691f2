"""The store: one file, opened, read and written in units."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hermes_store.clock import SYSTEM_CLOCK, Clock
from hermes_store.database.connection import IN_MEMORY, Connection
from hermes_store.database.database import Database
from hermes_store.database.driver import Driver, choose_driver
from hermes_store.database.health import (
    FileState,
    creating,
    first_open_lock,
    half_made,
    inspect_file,
    is_being_upgraded,
    make_folder,
    quarantine,
    refuse,
    require_lock,
    require_writable,
)
from hermes_store.database.lease import Lease
from hermes_store.database.vacuum import vacuum
from hermes_store.database.waiting import Wait
from hermes_store.errors import HermesStoreError, InvalidValue, OpenFailed, SessionNotFound, StoreLocked, UpgradeRunning
from hermes_store.events import NO_EVENTS, Counters, Events
from hermes_store.fts.keeper import Keeper
from hermes_store.home import default_store_path, is_default_store
from hermes_store.operations.append import NewMessage, add_message, append_message, clear_messages, guard_transcript
from hermes_store.operations.delete import SECONDS_PER_DAY, delete_conversation, remove, select_expired
from hermes_store.operations.sessions import create_session, session_values
from hermes_store.operations.titles import set_title
from hermes_store.operations.usage import NewUsage, record_usage
from hermes_store.repositories import Repositories
from hermes_store.schema.reading import prepare_for_reading
from hermes_store.schema.report import OpenReport, Progress
from hermes_store.schema.upgrade import UPGRADE_PATIENCE, bring_up_to_date
from hermes_store.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session as OrmSession

T = TypeVar("T")


class Reader(Repositories):
    """The repositories on one snapshot of the committed data, until the end of its block."""


class Unit(Repositories):
    """One transaction over any repositories, with the operations that span several. All of it happens, or nothing."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        super().__init__(connection)
        self._clock = clock
        self._orm: OrmSession | None = None

    @property
    def orm(self) -> "OrmSession":
        """An ORM session on this unit's connection; it is flushed before the unit commits.

        Its own commit and rollback end a savepoint, never the unit: a rollback undoes everything of the unit since the
        session was first used, or last committed or rolled back.
        """
        if self._orm is None:
            from hermes_store.database.orm import UnitSession

            self._orm = UnitSession(self.connection)
        return self._orm

    def create_session(self, session_id: str, source: str, **fields: Any) -> str:
        """Create a session, or fill what an existing one lacks. Rules SESSION-1 and SESSION-2.

        Raises InvalidValue for an id that holds a NUL, and what the constraints of the table refuse.
        """
        create_session(self, session_values(session_id, source, fields, self._clock.now()))
        return session_id

    def append(
        self, session_id: str, role: str, content: Any = None, *, lock_holder: str | None = None, **fields: Any
    ) -> int:
        """Append a message and raise the counters; returns its id. Rules APPEND-1 to APPEND-3.

        `fields`: further columns of a message. Raises SessionNotFound, SessionCompressionInProgressError,
        CompressionSessionClosedError.
        """
        now = self._clock.now()
        message = NewMessage(role, {**fields, "content": content}, now)
        if not guard_transcript(self, session_id, now, lock_holder):
            raise SessionNotFound(session_id)
        return add_message(self, session_id, message)

    def set_title(self, session_id: str, title: str | None) -> None:
        """Name a session. Raises SessionNotFound, DuplicateTitle, InvalidValue. Rules TITLE-1 to TITLE-3."""
        if not set_title(self, session_id, title):
            raise SessionNotFound(session_id)

    def record_usage(self, session_id: str, usage: NewUsage, *, absolute: bool = False) -> None:
        """Add to what a session has used, with `absolute` overwrite its totals. Rules USAGE-1 to USAGE-5.

        An unknown session is created. Raises InvalidValue for an id that is None or holds a NUL, and for numbers
        beyond 64 bits.
        """
        record_usage(self, session_id, usage, self._clock.now(), absolute=absolute)

    def end_session(self, session_id: str, reason: str | None) -> bool:
        """End a live session; False if it had ended already. Raises SessionNotFound. Rule SESSION-3."""
        if self.sessions.closing(session_id) is None:
            raise SessionNotFound(session_id)
        return self.sessions.end(session_id, reason, self._clock.now())

    def clear_messages(self, session_id: str) -> int:
        """Remove every message of a session; returns how many. Rule APPEND-4."""
        return clear_messages(self, session_id)

    def delete_conversation(self, session_id: str) -> list[str]:
        """Remove a conversation; returns the ids that are gone. Raises SessionNotFound. Rules DELETE-1, DELETE-2."""
        removed = delete_conversation(self, session_id)
        if not removed:
            raise SessionNotFound(session_id)
        return removed

    def prune(self, *, older_than_days: float, source: str | None = None) -> list[str]:
        """Remove ended conversations without activity for so long; returns the ids that are gone. Rule DELETE-3.

        Raises InvalidValue for a number of days that is negative or no number.
        """
        if not older_than_days >= 0:
            raise InvalidValue(f"older_than_days is {older_than_days}; give a number of days that is not negative")
        before = self._clock.now() - older_than_days * SECONDS_PER_DAY
        expired = select_expired(self, before=before, source=source)
        if expired:
            remove(self, expired)
        return expired

    def finish(self) -> None:
        """Send what the ORM session holds back; the doors call this before COMMIT."""
        if self.connection.refusal is not None:
            raise self.connection.refusal
        if self._orm is not None:
            self._orm.commit()

    def abandon(self) -> None:
        """Let go of the ORM session; the doors call this when the unit has ended."""
        if self._orm is not None:
            orm, self._orm = self._orm, None
            orm.close()


@dataclass(frozen=True, slots=True)
class _Way:
    """How a store is being opened."""

    driver: Driver
    settings: Settings
    clock: Clock
    backup: Path | bool
    progress: Progress | None
    events: Events


def _copy_target(backup: bool | str | os.PathLike[str]) -> Path | bool:  # noqa: FBT001 - as it was given
    return backup if isinstance(backup, bool) else Path(backup).absolute()


class Store:
    """A session store: one file, written in units and read in snapshots, by many threads and processes.

    Thread safety: one handle serves all threads of a process. A forked child opens its own.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock, report: OpenReport) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self.report = report

    # -- opening --------------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        create: bool = True,
        backup: bool | str | os.PathLike[str] = False,
        progress: Progress | None = None,
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        events: Events = NO_EVENTS,
    ) -> "Store":
        """Open the store at `path`, by default that of the profile in force, and bring it to the current shape.

        `create=False`: a missing file is an error. `read_only`: nothing on disk is changed, older files are read as
        they are. `backup`: a verified copy is made before a file that has content is changed, beside it or at the path
        that is given; `report.backup` says where. `progress` is told each step of an upgrade, `events` what the store
        does. Raises OpenFailed (StoreMissing, NotWritable, SchemaTooNew, StampUnreadable, BackupFailed and others),
        NotADatabase, NotAStore, StoreLocked, CorruptStore, DeletedWalGenerationError. Rules FILE-1 to FILE-6,
        SCHEMA-3 to SCHEMA-12, DAMAGE-3 and EVENT-1.
        """
        chosen = settings if settings is not None else Settings.from_environment()
        way = _Way(choose_driver(chosen.driver), chosen, clock, _copy_target(backup), progress, events)
        target = default_store_path() if path is None else Path(path)
        if str(target) != IN_MEMORY:
            # Once and for all: the process may change its folder.
            target = target.absolute()
        if read_only:
            return cls._open_read_only(target, way)
        if str(target) == IN_MEMORY:
            return cls._open_file(target, way, new_file=True, alone=True)
        state = inspect_file(target)
        if state is FileState.DATABASE:
            require_writable(target)
            return cls._open_file(target, way, new_file=False, alone=False)
        if state in (FileState.DIRECTORY, FileState.SPECIAL) or (state is FileState.MISSING and not create):
            refuse(target, state)
        try:
            return cls._open_first(target, way)
        except HermesStoreError:
            raise
        except OSError as exc:
            raise OpenFailed(f"unable to open database file: {target} cannot be made: {exc.strerror}") from exc

    @classmethod
    def _open_first(cls, target: Path, way: "_Way") -> "Store":
        """Create the file, or deal with one that is no database, alone among all processes."""
        own = is_default_store(target)
        state = inspect_file(target)
        if not own and state is not FileState.MISSING and not (state is FileState.EMPTY and half_made(target)):
            refuse(target, state)
        make_folder(target.parent)
        require_writable(target)
        with first_open_lock(target, way.clock) as held:
            # Somebody else may have made the file meanwhile.
            state = inspect_file(target)
            quarantined = None
            if state is FileState.EMPTY and half_made(target):
                state = FileState.MISSING
            if state in (FileState.EMPTY, FileState.ZEROED, FileState.OTHER):
                if not own:
                    refuse(target, state)
                require_lock(held, target)
                quarantined = str(quarantine(target, state, way.clock))
                state = FileState.MISSING
            if state is not FileState.MISSING:
                return cls._open_file(target, way, new_file=False, alone=True)
            with creating(target):
                store = cls._open_file(target, way, new_file=True, alone=True)
        if quarantined is not None:
            store.report = replace(store.report, quarantined=quarantined)
        return store

    @classmethod
    def _open_file(cls, target: Path, way: "_Way", *, new_file: bool, alone: bool) -> "Store":
        wait = Wait(way.clock, way.settings.patience, way.settings.guard_patience)
        long_wait = Wait(way.clock, UPGRADE_PATIENCE, way.settings.guard_patience)
        while True:
            try:
                return cls._try_file(target, way, new_file=new_file, alone=alone)
            except UpgradeRunning:
                raise
            except StoreLocked as exc:
                # An upgrade of a large file in DELETE mode keeps readers out too, so that not even a look is possible.
                (long_wait if not alone and is_being_upgraded(target) else wait).pause_or_raise(exc)

    @classmethod
    def _try_file(cls, target: Path, way: "_Way", *, new_file: bool, alone: bool) -> "Store":
        database = Database.open_writable(
            target,
            driver=way.driver,
            settings=way.settings,
            clock=way.clock,
            new_file=new_file,
            events=way.events,
            keeper=Keeper,
        )
        try:
            report = bring_up_to_date(
                database, patience=way.settings.patience, alone=alone, backup=way.backup, progress=way.progress
            )
        except BaseException:
            database.close()
            raise
        database.writer.serve()
        return cls(database, way.settings, way.clock, report)

    @classmethod
    def _open_read_only(cls, target: Path, way: "_Way") -> "Store":
        refuse(target, inspect_file(target))
        database = Database.open_read_only(
            target,
            driver=way.driver,
            settings=way.settings,
            clock=way.clock,
            events=way.events,
            prepare_reader=lambda connection: prepare_for_reading(connection, str(target)),
        )
        return cls(database, way.settings, way.clock, OpenReport())

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file, as an absolute path."""
        return self._database.path

    @property
    def driver(self) -> Driver:
        """The SQLite driver in use."""
        return self._database.driver

    @property
    def journal_mode(self) -> str:
        """The journal mode in force, in lower case."""
        return self._database.journal_mode

    @property
    def read_only(self) -> bool:
        """True if the store was opened for reading."""
        return self._database.read_only

    @property
    def clock(self) -> Clock:
        """Where this store takes the time from."""
        return self._clock

    @property
    def settings(self) -> Settings:
        """How this store was opened."""
        return self._settings

    @property
    def in_unit(self) -> bool:
        """True inside a unit of this handle in the calling thread, or a reader that shares its connection."""
        return not self.read_only and self._database.writer.held_by_this_thread

    @property
    def counters(self) -> Counters:
        """What this handle has done since it was opened. Rule EVENT-2."""
        return self._database.teller.counters.copy()

    # -- reading --------------------------------------------------------------------------------------------

    def reader(self) -> "Reading":
        """Repositories on one snapshot, for a `with` block; in WAL mode it never waits for writers.

        Rules READ-1 to READ-3.
        """
        return Reading(self._database)

    # -- writing --------------------------------------------------------------------------------------------

    def write(self, fn: Callable[[Unit], T], *, patience: float | None = None) -> T:
        """Run `fn` in a unit of its own and commit; returns what it returned. Rules WRITE-1 to WRITE-4.

        `fn` may run again, after a lock or a guard made the door wait: it has no effects but its unit's. `patience`:
        seconds to wait for the write lock. Raises StoreLocked, ReadOnlyStore, NestedUnit, and what `fn` raises, after
        everything was rolled back.
        """

        def body(connection: Connection) -> T:
            with self._unit(connection) as unit:
                result = fn(unit)
                unit.finish()
            return result

        return self._database.writer.run(body, patience=self._patience(patience))

    @contextmanager
    def transaction(
        self, *, patience: float | None = None, transcripts: Iterable[str] = (), lock_holder: str | None = None
    ) -> Iterator[Unit]:
        """A unit around a `with` body, which runs once. Rules WRITE-1, WRITE-3 and WRITE-5.

        `transcripts`: sessions that the body will append to; while one is being compressed by somebody other than
        `lock_holder`, the door waits. Raises UnitLost if SQLite ended the transaction, and what `write` raises.
        """
        guarded = tuple(transcripts)

        def guard(connection: Connection) -> None:
            repos = Repositories(connection)
            for session_id in guarded:
                guard_transcript(repos, session_id, self._clock.now(), lock_holder)

        door = self._database.writer.transaction(patience=self._patience(patience), guard=guard if guarded else None)
        with door as connection, self._unit(connection) as unit:
            yield unit
            unit.finish()

    def append(
        self,
        session_id: str,
        role: str,
        fields: Mapping[str, Any],
        *,
        lock_holder: str | None = None,
    ) -> int:
        """Append one message in a unit of its own; returns its id. The hot path. Rules APPEND-1 to APPEND-3.

        `fields`: content and further columns. Raises TypeError for what JSON cannot hold, before anything is written,
        and what `write` raises; ForeignKeyFailed for an unknown session.
        """
        now = self._clock.now()
        message = NewMessage(role, fields, now)

        def body(connection: Connection) -> int:
            return append_message(Repositories(connection), session_id, message, self._clock.now(), lock_holder)

        return self._database.writer.run(body, patience=self._settings.transcript_patience)

    @contextmanager
    def _unit(self, connection: Connection) -> Iterator[Unit]:
        lease = Lease(connection)
        unit = Unit(lease, self._clock)
        try:
            yield unit
        finally:
            unit.abandon()
            lease.end()

    def _patience(self, given: float | None) -> float:
        return self._settings.patience if given is None else given

    # -- upkeep ---------------------------------------------------------------------------------------------

    def vacuum(self, *, patience: float | None = None) -> None:
        """Write the file anew without the space of what was removed, and empty its log. Rule FTS-11.

        Needs as much free space as the file has, for a while. `patience`: seconds to wait for others. Raises
        NestedUnit inside a unit, ReadOnlyStore, StoreLocked, DiskFull.
        """
        vacuum(self._database, patience=self._patience(patience))

    # -- closing --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}{' (read only)' if self.read_only else ''}>"


class Reading:
    """The `with` block of a reader."""

    __slots__ = ("_lease", "_snapshot")

    def __init__(self, database: Database) -> None:
        self._snapshot = database.read()

    def __enter__(self) -> Reader:
        self._lease = Lease(self._snapshot.__enter__())
        return Reader(self._lease)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lease.end()
        self._snapshot.__exit__(kind, error, traceback)
