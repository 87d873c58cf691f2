"""Connections: opening a raw one, and the wrapper through which the library runs statements."""

import functools
import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hermes_store.database import registry
from hermes_store.database.damage import is_damage
from hermes_store.database.driver import Driver, choose_driver
from hermes_store.database.statements import Statement
from hermes_store.database.translation import NO_TEXT, translate
from hermes_store.errors import (
    CorruptStore,
    DiskFailure,
    HermesStoreError,
    InvalidValue,
    OperationFailed,
    UnitLost,
    WrongProcess,
)
from hermes_store.events import Teller
from hermes_store.home import canonical
from hermes_store.settings import Settings
from hermes_store.text import fold, scrub_if_text

if TYPE_CHECKING:
    import sqlalchemy
    from sqlalchemy.engine.interfaces import ExceptionContext
    from sqlalchemy.sql.base import Executable

    from hermes_store.database.driver import DriverConnection, DriverCursor

IN_MEMORY = ":memory:"
WRITER_TIMEOUT = 1.0  # seconds; short, so that the jittered retry of the doors takes over
READER_TIMEOUT = 5.0  # seconds; reads are not retried

FOLD_FUNCTION = "hermes_store_fold"
"""Name of a SQL function: a text without differences of case and composition."""

REPLAYS = 3
"""How often a statement of a reader is tried again after an error of the disk: in WAL mode a checkpoint of another
process can look like one."""

_REPLAY_PAUSE = 0.05  # seconds

_Values = Mapping[str, Any]
_NO_VALUES: _Values = {}


def connect(
    path: str | Path, *, driver: Driver | str | None = None, read_only: bool = False, timeout: float = WRITER_TIMEOUT
) -> "DriverConnection":
    """A raw DB-API connection to a file, through the driver that stores use, in autocommit mode.

    Code that looks into a live `state.db` takes this instead of `sqlite3.connect`: a second SQLite library on the file
    would cancel the locks of the first. `timeout` in seconds. Raises OpenFailed, DriverConflict. Rule FILE-2.
    """
    target = str(path)
    chosen = driver if isinstance(driver, Driver) else choose_driver(driver or _driver_for(target))
    options: dict[str, Any] = {"timeout": timeout, "isolation_level": None, "check_same_thread": False}
    if target == IN_MEMORY:
        connection: DriverConnection = chosen.module.connect(target, **options)
        return connection
    # Absolute: the library would take a relative path that begins with "file:" for a URI.
    file = Path(path).absolute()
    target = str(file)
    with registry.opening(file, chosen.name):
        if read_only:
            target, options["uri"] = _read_only_uri(file), True
        try:
            connection = chosen.module.connect(target, factory=_tracked_class(chosen), **options)
        except chosen.module.Error as exc:
            raise translate(exc) from exc
        connection.tracked_path = Path(canonical(file))  # type: ignore[attr-defined]
        connection.process_id = os.getpid()  # type: ignore[attr-defined]
    return connection


def _driver_for(target: str) -> str | None:
    """The driver through which this process has the file open already, else the one that is configured."""
    in_use = None if target == IN_MEMORY else registry.driver_of(Path(target))
    return in_use if in_use is not None else Settings.from_environment().driver


def _read_only_uri(path: Path) -> str:
    # Quoted, or a '#' or '?' in the path would silently open another, empty database.
    return f"file:{quote(os.fsencode(path))}?mode=ro"


@functools.cache
def _tracked_class(driver: Driver) -> Any:
    """A connection class of the driver that leaves the register when it is closed."""

    class TrackedConnection(driver.module.Connection):  # type: ignore[misc, name-defined]
        tracked_path: Path | None = None
        process_id = 0

        def close(self) -> None:
            if self.process_id != os.getpid():
                return  # inherited by a fork: it is the parent's to close
            super().close()
            if self.tracked_path is not None:
                registry.closed(self.tracked_path)
                self.tracked_path = None

        def __del__(self) -> None:
            if self.tracked_path is not None:
                self.close()

    return TrackedConnection


def _fold_value(value: Any) -> Any:
    return fold(value) if isinstance(value, str) else value


_alive: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def _refuse_inherited() -> None:
    """In a forked child: the connections belong to the parent."""
    for connection in _alive:
        connection.refusal = WrongProcess


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_inherited)


class Connection:
    """A driver connection with our errors, our statements, and SQLAlchemy on demand.

    While a unit of work is open on it, an error that made SQLite end the transaction is noticed here: from then on
    nothing more is executed and every call raises UnitLost.
    """

    __slots__ = (
        "__weakref__",
        "_began",
        "_engine",
        "_error",
        "_last_failure",
        "_sa",
        "driver",
        "failed_sql",
        "in_unit",
        "lost_to",
        "on_damage",
        "raw",
        "refusal",
        "replays",
        "slow_after",
        "teller",
        "traits",
    )

    def __init__(self, raw: "DriverConnection", driver: Driver) -> None:
        self.raw = raw
        self.driver = driver
        self.in_unit = False
        # What the file has that only some files have; statements may differ by it.
        self.traits: frozenset[str] = frozenset()
        # Set while statements must not run: after a lost unit, and on a writer's connection outside its doors.
        self.refusal: type[HermesStoreError] | None = None
        # The error by which SQLite ended the unit, for whoever hears only of what came after it.
        self.lost_to: HermesStoreError | None = None
        # Asked, while a unit lives, when a statement meets damage; True if it was mended, so that it may run again.
        self.on_damage: Callable[[HermesStoreError], bool] | None = None
        # The last statement that failed, and how; weakly, since an error holds on to whatever led to it.
        self.failed_sql = ""
        self._last_failure: weakref.ref[Exception] | None = None
        # Told, among other things, of statements that take longer than so many seconds.
        self.teller = Teller()
        self.slow_after = float("inf")
        # How often a statement that only reads is tried again after an error of the disk.
        self.replays = 0
        self._began = 0.0
        self._error = driver.module.Error
        _alive.add(self)
        # SQLite folds ASCII letters only.
        raw.create_function(FOLD_FUNCTION, 1, _fold_value, deterministic=True)
        self._engine: sqlalchemy.Engine | None = None
        self._sa: sqlalchemy.Connection | None = None

    # -- compiled statements: the way of the hot paths ------------------------------------------------------

    def run(self, statement: Statement, values: _Values = _NO_VALUES) -> "DriverCursor":
        """Execute a compiled statement; returns the driver's cursor, for `lastrowid` and `rowcount`."""
        if self.refusal is not None:
            raise self.refusal
        sql, arguments = statement.bound(values)
        began = perf_counter()
        cursor = self._execute(sql, arguments)
        self._look_at(sql, began)
        return cursor

    def rows(self, statement: Statement, values: _Values = _NO_VALUES) -> list[Any]:
        """All rows of a compiled SELECT, as tuples."""
        if self.refusal is not None:
            raise self.refusal
        return self._all(*statement.bound(values))

    def row(self, statement: Statement, values: _Values = _NO_VALUES) -> Any:
        """The first row of a compiled SELECT as a tuple, or None."""
        if self.refusal is not None:
            raise self.refusal
        sql, arguments = statement.bound(values)
        began = perf_counter()
        cursor = self._execute(sql, arguments)
        try:
            found = cursor.fetchone()
            cursor.close()
        except self._error as exc:
            cursor.close()
            rows = self._once_more(self.failure(exc, sql), sql, arguments)
            return rows[0] if rows else None
        self._look_at(sql, began)
        return found

    def scalar(self, statement: Statement, values: _Values = _NO_VALUES) -> Any:
        """The first column of the first row, or None."""
        found = self.row(statement, values)
        return None if found is None else found[0]

    # -- raw SQL: for the floors that own some --------------------------------------------------------------

    def sql(self, text: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """Run raw SQL and fetch all rows; only for `database/`, `fts/` and `schema/`."""
        if self.refusal is not None:
            raise self.refusal
        return self._all(text, parameters)

    # -- running one statement ------------------------------------------------------------------------------

    def _all(self, sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        began = perf_counter()
        try:
            found = self._fetch_all(self._execute(sql, arguments), sql)
        except (OperationFailed, CorruptStore) as exc:
            return self._once_more(exc, sql, arguments)
        self._look_at(sql, began)
        return found

    def _fetch_all(self, cursor: "DriverCursor", sql: str) -> list[Any]:
        try:
            return cursor.fetchall()
        except self._error as exc:
            # Half-read, it would keep its table locked.
            cursor.close()
            raise self.failure(exc, sql)  # noqa: B904 - it names its cause

    def _execute(self, sql: str, arguments: tuple[Any, ...]) -> "DriverCursor":
        try:
            return self.raw.execute(sql, arguments)
        except self._error as exc:
            failure = self.failure(exc, sql)
        except UnicodeEncodeError:
            # Lone surrogates: SQLite holds UTF-8, and no text is worth an error.
            return self._execute(sql, tuple(scrub_if_text(each) for each in arguments))
        except OverflowError as exc:
            raise InvalidValue(f"a number does not fit into 64 bits: {exc}") from exc
        if self.is_mended(failure):
            # A savepoint is released even where that meets damage.
            return self._execute(sql if not sql.startswith("RELEASE") else "SELECT 1", arguments)
        raise failure

    def _once_more(self, failure: Exception, sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        """The rows of a statement that failed while it was read, where that has a way out; raises the failure."""
        if isinstance(failure, OperationFailed) and NO_TEXT in str(failure):
            return self._leniently(sql, arguments)
        if isinstance(failure, DiskFailure):
            return self._replay(failure, sql, arguments)
        if self.is_mended(failure):
            return self._fetch_all(self._execute(sql, arguments), sql)
        raise failure

    def _leniently(self, sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        """The rows of a statement with bytes that are no UTF-8 replaced: one bad text must not hide the others."""
        before = self.raw.text_factory
        self.raw.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            return self._fetch_all(self._execute(sql, arguments), sql)
        finally:
            self.raw.text_factory = before

    def _replay(self, failure: DiskFailure, sql: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Read again after an error of the disk, on the same snapshot, a few times. Rule READ-6."""
        last = failure
        for _ in range(self.replays):
            if not self.raw.in_transaction:
                break  # and with it went the snapshot
            sleep(_REPLAY_PAUSE)
            try:
                return self._fetch_all(self._execute(sql, arguments), sql)
            except DiskFailure as exc:
                last = exc
        raise last

    def is_mended(self, failure: Exception) -> bool:
        """Whether damage that a statement of a unit met was mended, so that the statement may run again."""
        return (
            isinstance(failure, HermesStoreError)
            and is_damage(failure)
            and self.on_damage is not None
            and self.in_unit
            and self.raw.in_transaction
            and self.on_damage(failure)
        )

    def _look_at(self, sql: str, began: float) -> None:
        seconds = perf_counter() - began
        if seconds >= self.slow_after:
            self.teller.slow_statement(sql, seconds)

    # -- SQLAlchemy, for everything that is not hot ---------------------------------------------------------

    @property
    def sa(self) -> "sqlalchemy.Connection":
        """A SQLAlchemy connection over the same driver connection, made at the first use.

        Transactions are the business of the write doors alone.
        """
        if self.refusal is not None:
            raise self.refusal
        if self._sa is None:
            self._sa = self.connect_sa()
        if not self._sa.in_transaction():
            self._sa.begin()
        return self._sa

    def connect_sa(self) -> "sqlalchemy.Connection":
        """Another SQLAlchemy connection over the same driver connection."""
        if self._engine is None:
            self._engine = self._make_engine()
        return self._engine.connect()

    def execute(self, statement: "Executable", values: _Values | None = None) -> "sqlalchemy.CursorResult[Any]":
        """Execute a Core statement through SQLAlchemy."""
        if self.refusal is not None:
            raise self.refusal
        result: sqlalchemy.CursorResult[Any] = self.sa.execute(statement, values)
        return result

    def _make_engine(self) -> "sqlalchemy.Engine":
        from sqlalchemy import create_engine, event
        from sqlalchemy.pool import StaticPool

        from hermes_store.database.dialect import URL

        engine = create_engine(
            URL,
            module=self.driver.module,
            creator=lambda: self.raw,
            poolclass=StaticPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )

        def on_error(context: "ExceptionContext") -> None:
            if isinstance(context.original_exception, self._error):
                raise self.failure(context.original_exception, context.statement or "")

        def before(*_: object) -> None:
            if self.refusal is not None:
                raise self.refusal
            self._began = perf_counter()

        def after(*happened: Any) -> None:
            if self.in_unit and not self.raw.in_transaction:
                # Somebody said COMMIT or ROLLBACK in SQL.
                self.refusal = UnitLost
            self._look_at(happened[2], self._began)

        def execute(cursor: "DriverCursor", statement: str, parameters: Any, *_: object) -> bool:
            return self._execute_for(cursor.execute, statement, parameters)

        def execute_many(cursor: "DriverCursor", statement: str, parameters: Any, *_: object) -> bool:
            return self._execute_many_for(cursor.executemany, statement, parameters)

        event.listen(engine, "do_execute", execute)
        event.listen(engine, "do_executemany", execute_many)
        event.listen(engine, "handle_error", on_error)
        event.listen(engine, "before_cursor_execute", before)
        event.listen(engine, "after_cursor_execute", after)
        return engine

    def _execute_for(self, execute: Callable[[str, Any], object], sql: str, parameters: Any) -> bool:
        """Execute for SQLAlchemy, and once more where damage was mended; True: it is done."""
        try:
            execute(sql, parameters)
        except self._error as exc:
            if not self.is_mended(translate(exc)):
                raise
            if not sql.startswith("RELEASE"):  # which has released all the same
                execute(sql, parameters)
        return True

    def _execute_many_for(self, execute: Callable[[str, Any], object], sql: str, parameters: Any) -> bool:
        """Execute for SQLAlchemy with many rows. Where that meets damage some of them are stored: the unit is lost."""
        try:
            execute(sql, parameters)
        except self._error as exc:
            failure = self.failure(exc, sql)
            if self.in_unit and is_damage(failure) and isinstance(failure, HermesStoreError):
                self.refusal = UnitLost
                self.lost_to = failure
            raise
        return True

    # -- state ----------------------------------------------------------------------------------------------

    def failure(self, error: BaseException, sql: str = "") -> Exception:
        """Our error for one of the driver, its cause set; notices when SQLite has ended the unit."""
        self.failed_sql = sql
        translated = translate(error)
        if not str(error).startswith(NO_TEXT):  # it quotes the text
            translated.__cause__ = error
        self._last_failure = weakref.ref(translated)
        if self.in_unit and not self.raw.in_transaction:
            self.refusal = UnitLost
            lost = UnitLost(f"SQLite ended the transaction under this unit: {translated}")
            lost.__cause__ = lost.reason = self.lost_to = translated
            return lost
        return translated

    def has_failed_with(self, error: BaseException) -> bool:
        """Whether this error is the last one that a statement of this connection met."""
        return self._last_failure is not None and self._last_failure() is error

    def close(self) -> None:
        """Close SQLAlchemy's side and the driver connection."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = self._sa = None
        try:
            self.raw.close()
        except self._error as exc:
            raise translate(exc) from exc
