"""Which session a Telegram topic shows; the table is there where the feature was used."""

from collections.abc import Collection

from sqlalchemy import delete

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.models.tables import TOPIC_BINDINGS
from hermes_store.repositories.constructs import id_list, ids_in
from hermes_store.schema.traits import TOPICS_STAY

_UNBIND = Statement(delete(TOPIC_BINDINGS).where(TOPIC_BINDINGS.c.session_id.in_(ids_in("session_ids"))))


class TopicRepository:
    """Bindings of topics to sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def unbind(self, session_ids: Collection[str]) -> int:
        """Remove the bindings of sessions that are going, where the file does not do so itself; returns how many."""
        if TOPICS_STAY not in self._connection.traits:
            return 0
        return self._connection.run(_UNBIND, {"session_ids": id_list(sorted(session_ids))}).rowcount
