"""Finding messages: rank under all filters first, then dress the page of hits (rules SEARCH-5 to SEARCH-8).

A search is a small, fixed number of statements however many hits there are.
"""

import json
import logging
from typing import Any

from hermes_store.conversation.excerpt import best_text, excerpt, marked_excerpt, readable_texts
from hermes_store.database.connection import Connection
from hermes_store.errors import CorruptStore, EmptyQuery, InvalidValue
from hermes_store.fts.constructs import MARK_BEGIN, MARK_END
from hermes_store.fts.indexes import BASE_INDEX, TRIGRAM_INDEX, Index
from hermes_store.fts.query import Operator, Route, SearchPlan, plan
from hermes_store.fts.state import SearchCapability, capability
from hermes_store.repositories.records import ContextMessage, SearchHit
from hermes_store.repositories.search_context import contexts_of
from hermes_store.repositories.search_statements import SearchFilter, dressed, ranked, scan_values, scanned

log = logging.getLogger(__name__)

__all__ = ["SearchFilter", "SearchRepository"]

_INDEX_OF_ROUTE = {Route.WORDS: BASE_INDEX, Route.SUBSTRINGS: TRIGRAM_INDEX}

HitRow = tuple[Any, ...]
"""The fields of a `SearchHit` in their order; its context as a list of (role, text)."""


class SearchRepository:
    """Full-text search over messages of all sessions: `messages` gives records, `hit_rows` plain tuples, for loops."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def messages(
        self,
        query: str,
        wanted: SearchFilter = SearchFilter(),  # noqa: B008 - immutable
        *,
        limit: int | None = 20,
        offset: int = 0,
        with_context: bool = True,
    ) -> list[SearchHit]:
        """The hits of a query, best first; None or a negative limit gives all. Rules SEARCH-1 to SEARCH-8.

        Raises EmptyQuery when the text holds nothing to look for, InvalidValue when it is no text.
        """
        rows = self.hit_rows(query, wanted, limit=limit, offset=offset, with_context=with_context)
        return [_hit(row) for row in rows]

    def hit_rows(
        self,
        query: str,
        wanted: SearchFilter = SearchFilter(),  # noqa: B008 - immutable
        *,
        limit: int | None = 20,
        offset: int = 0,
        with_context: bool = True,
    ) -> list[HitRow]:
        """The same as `messages`, as plain tuples."""
        if not isinstance(query, str):
            raise InvalidValue(f"a query is a text, not {type(query).__name__}")
        chosen = self.plan(query, wanted)
        if chosen.is_empty:
            raise EmptyQuery(f"the query {query!r} holds nothing to look for; give a word or a phrase")
        page = {"limit": -1 if limit is None else limit, "offset": max(offset, 0)}
        index = _INDEX_OF_ROUTE.get(chosen.route)
        if index is not None:
            try:
                return self._by_index(chosen, index, wanted, page, with_context=with_context)
            except CorruptStore as exc:
                # The messages are all there, only slower to look through.
                log.warning("a search index is damaged, searching by scan: %s", exc)
                self._connection.teller.degraded(
                    "search", f"{index.name} is damaged; the next write that meets it mends it"
                )
        values = {**scan_values(chosen), **wanted.values(), **page}
        found = [row[0] for row in self._connection.rows(scanned(chosen, wanted), values)]
        return self._dress(found, chosen, None, "", with_context=with_context)

    def _by_index(
        self, chosen: SearchPlan, index: Index, wanted: SearchFilter, page: dict[str, Any], *, with_context: bool
    ) -> list[HitRow]:
        match = chosen.match
        found = self._ranked(index, match, wanted, page)
        if not found and chosen.fallback and not self._has_earlier_page(index, match, wanted, page["offset"]):
            # A word may be glued to CJK text or stand inside a longer one.
            index, match = TRIGRAM_INDEX, chosen.fallback
            found = self._ranked(index, match, wanted, page)
        return self._dress(found, chosen, index, match, with_context=with_context)

    def _has_earlier_page(self, index: Index, match: str, wanted: SearchFilter, offset: int) -> bool:
        """True if an empty page is the end of results, and not a query without any."""
        return offset > 0 and bool(self._ranked(index, match, wanted, {"limit": 1, "offset": 0}))

    def plan(self, query: str, wanted: SearchFilter = SearchFilter()) -> SearchPlan:  # noqa: B008 - immutable
        """How the query would be answered now, and why."""
        able: SearchCapability = capability(self._connection)
        return plan(
            query,
            words=able.words,
            trigram=able.trigram,
            past_nul=able.past_nul,
            tool_rows="tool" in wanted.roles,
        )

    def _ranked(self, index: Index, match: str, wanted: SearchFilter, page: dict[str, Any]) -> list[int]:
        values = {"match": match, **wanted.values(), **page}
        return [row[0] for row in self._connection.rows(ranked(index, wanted.shape()), values)]

    def _dress(
        self, found: list[int], chosen: SearchPlan, index: Index | None, match: str, *, with_context: bool
    ) -> list[HitRow]:
        """Everything else of the hits, in three statements. Rules SEARCH-6 and SEARCH-8."""
        if not found:
            return []
        values = {"match": match, "message_ids": json.dumps(found)}
        contexts = contexts_of(self._connection, found) if with_context else {}
        needles = [term.text for group in chosen.groups for term in group if term.operator is not Operator.NOT]
        hits: dict[int, HitRow] = {}
        for row in self._connection.rows(dressed(index), values):
            row_id, session_id, role, snippet, timestamp, tool_name, source, model, started, content, tool_calls = row
            if index is None:
                snippet = excerpt(best_text(readable_texts(content, tool_name, tool_calls), needles), needles)
            elif content is not None:
                # Structured content, or a very long text.
                text = best_text(readable_texts(content, tool_name, tool_calls), needles)
                snippet = marked_excerpt(text, needles, MARK_BEGIN, MARK_END)
            context = contexts.get(row_id, ())
            hits[row_id] = (
                row_id, session_id, role, snippet, timestamp, tool_name, source, model, started, context,
            )  # fmt: skip
        return [hits[row_id] for row_id in found if row_id in hits]


def _hit(row: HitRow) -> SearchHit:
    *fields, context = row
    values: tuple[Any, ...] = (*fields, tuple(ContextMessage(role, text) for role, text in context))
    return SearchHit(*values)
