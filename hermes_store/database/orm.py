"""An ORM session inside a unit of work."""

from typing import Any

from sqlalchemy.orm import Session

from hermes_store.database.connection import Connection


class UnitSession(Session):
    """A session on the connection of a unit: its transactions are savepoints, and it ends with the unit."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(bind=connection.sa, join_transaction_mode="create_savepoint", expire_on_commit=False)
        self._unit_connection = connection

    def get_bind(self, *arguments: Any, **options: Any) -> Any:
        """The connection. Raises UnitEnded after the end of the unit, UnitLost after a loss."""
        if self._unit_connection.refusal is not None:
            raise self._unit_connection.refusal
        return super().get_bind(*arguments, **options)
