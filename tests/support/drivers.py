"""The SQLite drivers and journal modes that the suite runs on."""

from dataclasses import dataclass

from hermes_store.database import load_driver
from hermes_store.errors import DriverUnavailable


@dataclass(frozen=True)
class Engine:
    """One way to open stores: a driver, and the journal mode that new files get."""

    driver: str
    journal_mode: str

    @property
    def label(self) -> str:
        return f"{self.driver}-{self.journal_mode}"


def installed() -> list[str]:
    names = []
    for name in ("sqlite3", "pysqlite3"):
        try:
            load_driver(name)
        except DriverUnavailable:
            continue
        names.append(name)
    return names


def engines() -> list[Engine]:
    """Both journal modes where the library may use WAL, DELETE alone where it may not."""
    found = []
    for name in installed():
        if load_driver(name).wal_safe:
            found.append(Engine(name, "wal"))
        found.append(Engine(name, "delete"))
    return found


def indexes_past_nul(name: str) -> bool:
    """Whether the driver's trigram tokenizer goes on behind a NUL; CJK text is scanned for where it does not."""
    raw = load_driver(name).module.connect(":memory:")
    try:
        raw.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='trigram')")
        raw.execute("INSERT INTO t VALUES (?)", ("ab\0cdef",))
        return bool(raw.execute("SELECT 1 FROM t WHERE t MATCH 'cde'").fetchall())
    finally:
        raw.close()
