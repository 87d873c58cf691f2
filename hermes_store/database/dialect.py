"""SQLAlchemy's SQLite dialect without a say in transactions.

BEGIN, COMMIT and ROLLBACK belong to the write doors and the readers. SQLAlchemy, on the other hand, rolls back whenever
it gets to know a connection or hands one back, and the drivers commit when their isolation level is assigned, which
would end the unit that is open on it. So none of that does anything here; savepoints, which an ORM session uses inside
a unit, work as ever.
"""

from typing import Any

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import reflection

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

    @reflection.cache
    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **options: Any) -> Any:
        """The foreign keys with what happens to their rows: SQLAlchemy does not see that of an inline REFERENCES."""
        found: list[Any] = super().get_foreign_keys(connection, table_name, schema, **options)  # type: ignore[no-untyped-call]
        rules = {}
        for row in connection.exec_driver_sql("SELECT * FROM pragma_foreign_key_list(?)", (table_name,)):
            _, _, target, column, _, on_update, on_delete, _ = row
            rules[column, target] = {"ondelete": on_delete, "onupdate": on_update}
        for key in found:
            said = rules.get((key["constrained_columns"][0], key["referred_table"]), {})
            key["options"] = {name: rule for name, rule in said.items() if rule != "NO ACTION"}
        return found

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Nothing: connections are opened in the driver's autocommit mode and stay so."""


registry.register("hermes_store_sqlite", __name__, UnitDialect.__name__)
