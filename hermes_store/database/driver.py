"""Choosing the SQLite driver by what its library can do (rules DRIVER-*).

A driver is a DB-API module with the interface of the standard library's `sqlite3`. Two are known: `sqlite3` itself and
`pysqlite3`, a wheel that brings a current SQLite along.
"""

import functools
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes_store.errors import DriverUnavailable

if TYPE_CHECKING:
    import sqlite3
    from typing import TypeAlias

    # pysqlite3 has the same interface; for the type checker both are the standard library's.
    DriverConnection: TypeAlias = sqlite3.Connection
    DriverCursor: TypeAlias = sqlite3.Cursor

_MODULES = {"sqlite3": "sqlite3", "pysqlite3": "pysqlite3.dbapi2"}
_OLDEST = (3, 37, 0)  # PRAGMA table_list, which tells virtual and shadow tables from ordinary ones
_INSTALL_HINT = "install the extra: pip install 'hermes-store[sqlite]'"


def is_wal_reset_vulnerable(version: tuple[int, ...]) -> bool:
    """True for SQLite libraries that can damage a database in WAL mode when the log is reset. Rule DRIVER-2.

    3.7.0 up to 3.51.2, without the fixed releases 3.44.6+ of the 3.44 line and 3.50.7+ of the 3.50 line.
    """
    padded = (*version, 0, 0, 0)[:3]
    if padded < (3, 7, 0) or padded >= (3, 51, 3):
        return False
    line, patch = padded[:2], padded[2]
    return not ((line == (3, 44) and patch >= 6) or (line == (3, 50) and patch >= 7))


@dataclass(frozen=True, slots=True)
class Driver:
    """A DB-API module and what is known of the SQLite library that it links."""

    name: str
    module: Any
    version: tuple[int, ...]
    has_fts5: bool
    has_trigram: bool

    @property
    def version_text(self) -> str:
        """The library's version, as `3.53.4`."""
        return ".".join(str(part) for part in self.version)

    @property
    def wal_safe(self) -> bool:
        """False where the library may damage a file in WAL mode."""
        return not is_wal_reset_vulnerable(self.version)

    @property
    def sound(self) -> bool:
        """True if nothing of what the store needs is missing or known to be broken."""
        return self.version >= _OLDEST and self.has_fts5 and self.has_trigram and self.wal_safe


def _probe(module: Any) -> tuple[bool, bool]:
    """Whether FTS5 and its trigram tokenizer work, tried on a database in memory."""
    connection = module.connect(":memory:")
    try:
        found: list[bool] = []
        for options in ("content", "content, tokenize='trigram'"):
            try:
                connection.execute(f"CREATE VIRTUAL TABLE probe_{len(found)} USING fts5({options})")
            except module.OperationalError:
                found.append(False)
            else:
                found.append(True)
        return found[0], found[1]
    finally:
        connection.close()


@functools.cache
def load_driver(name: str) -> Driver:
    """The driver of that name. Raises DriverUnavailable if it is unknown or not installed."""
    if name not in _MODULES:
        known = " or ".join(sorted(_MODULES))
        raise DriverUnavailable(f"there is no SQLite driver named {name!r}; it can be {known}")
    try:
        module = importlib.import_module(_MODULES[name])
    except ImportError as exc:
        raise DriverUnavailable(f"the SQLite driver {name!r} is not installed; {_INSTALL_HINT}") from exc
    has_fts5, has_trigram = _probe(module)
    return Driver(
        name=name,
        module=module,
        version=tuple(module.sqlite_version_info),
        has_fts5=has_fts5,
        has_trigram=has_trigram,
    )


def choose_driver(name: str | None = None) -> Driver:
    """The driver to use: the one that is named, else the first sound one, the standard library's first. Rule DRIVER-1.

    Without a sound one the newest that is installed serves: new files then stay out of WAL mode.
    Raises DriverUnavailable if the named one is missing, or nothing is new enough.
    """
    return load_driver(name) if name is not None else _best()


@functools.cache
def _best() -> Driver:
    standard = load_driver("sqlite3")
    if standard.sound:
        return standard
    try:
        bundled = load_driver("pysqlite3")
    except DriverUnavailable:
        bundled = standard
    chosen = bundled if bundled.sound or bundled.version > standard.version else standard
    if chosen.version < _OLDEST:
        raise DriverUnavailable(
            f"SQLite {chosen.version_text} is too old, {'.'.join(map(str, _OLDEST))} is needed; {_INSTALL_HINT}"
        )
    return chosen
