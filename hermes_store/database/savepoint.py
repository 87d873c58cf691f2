"""A part of a unit that can fail by itself (rule WRITE-6)."""

from collections.abc import Iterator
from contextlib import contextmanager

from hermes_store.database.connection import Connection


@contextmanager
def savepoint(connection: Connection, name: str) -> Iterator[None]:
    """What the body does is undone if it raises, and the unit goes on; not where SQLite has ended the unit itself."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name of a savepoint")
    connection.sql(f"SAVEPOINT {name}")
    try:
        yield
    except BaseException:
        if connection.refusal is None and connection.raw.in_transaction:
            connection.sql(f"ROLLBACK TO {name}")
            connection.sql(f"RELEASE {name}")
        raise
    connection.sql(f"RELEASE {name}")
