"""SQLAlchemy's SQLite dialect without a say in transactions.

BEGIN, COMMIT and ROLLBACK belong to the write doors and the readers. SQLAlchemy, on the other hand, rolls back whenever
it gets to know a connection or hands one back, and the drivers commit when their isolation level is assigned, which
would end the unit that is open on it. So none of that does anything here; savepoints, which an ORM session uses inside
a unit, work as ever.
"""

from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

URL = "hermes_store_sqlite://"


class UnitDialect(SQLiteDialect_pysqlite):
    """The pysqlite dialect on a connection whose transactions are somebody else's."""

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: Any) -> None:
        """Nothing."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Nothing."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Nothing."""

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Nothing: connections are opened in the driver's autocommit mode and stay so."""


registry.register("hermes_store_sqlite", __name__, UnitDialect.__name__)
