"""The key-value table of the store."""

from sqlalchemy import bindparam, delete, insert, select, update

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import STATE_META

_table = STATE_META

_GET = Statement(select(_table.c.value).where(_table.c.key == bindparam("key")))
_UPDATE = Statement(update(_table).where(_table.c.key == bindparam("k")).values(value=bindparam("v")))
_INSERT = Statement(insert(_table).values(key=bindparam("k"), value=bindparam("v")))
_DELETE = Statement(delete(_table).where(_table.c.key == bindparam("key")))


class MetaRepository:
    """Settings and progress marks, one text per key."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, key: str) -> str | None:
        """The value of a key, or None."""
        value: str | None = self._connection.scalar(_GET, {"key": key})
        return value

    def set(self, key: str, value: str | None) -> None:
        """Store or overwrite the value of a key."""
        values = {"k": key, "v": value}
        if self._connection.run(_UPDATE, values).rowcount == 0:
            self._connection.run(_INSERT, values)

    def remove(self, key: str) -> bool:
        """Forget a key; False if it was not there."""
        return self._connection.run(_DELETE, {"key": key}).rowcount > 0
