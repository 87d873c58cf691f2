"""One class per aggregate, over a connection that is handed in; none opens, commits or retries."""

from functools import cached_property

from hermes_store.database.connection import Connection
from hermes_store.repositories.lineage import LineageRepository
from hermes_store.repositories.locks import LockRepository
from hermes_store.repositories.messages import MessageRepository
from hermes_store.repositories.meta import MetaRepository
from hermes_store.repositories.search import SearchRepository
from hermes_store.repositories.sessions import SessionRepository
from hermes_store.repositories.titles import TitleRepository
from hermes_store.repositories.topics import TopicRepository
from hermes_store.repositories.usage import UsageRepository

__all__ = [
    "LineageRepository",
    "LockRepository",
    "MessageRepository",
    "MetaRepository",
    "Repositories",
    "SearchRepository",
    "SessionRepository",
    "TitleRepository",
    "TopicRepository",
    "UsageRepository",
]


class Repositories:
    """All repositories over one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @cached_property
    def sessions(self) -> SessionRepository:
        """Sessions."""
        return SessionRepository(self.connection)

    @cached_property
    def messages(self) -> MessageRepository:
        """Messages of sessions."""
        return MessageRepository(self.connection)

    @cached_property
    def titles(self) -> TitleRepository:
        """Titles of sessions."""
        return TitleRepository(self.connection)

    @cached_property
    def lineage(self) -> LineageRepository:
        """How sessions hang together."""
        return LineageRepository(self.connection)

    @cached_property
    def search(self) -> SearchRepository:
        """Full-text search."""
        return SearchRepository(self.connection)

    @cached_property
    def usage(self) -> UsageRepository:
        """Tokens and cost of sessions."""
        return UsageRepository(self.connection)

    @cached_property
    def topics(self) -> TopicRepository:
        """Telegram topics."""
        return TopicRepository(self.connection)

    @cached_property
    def locks(self) -> LockRepository:
        """Compression leases."""
        return LockRepository(self.connection)

    @cached_property
    def meta(self) -> MetaRepository:
        """The key-value table."""
        return MetaRepository(self.connection)
