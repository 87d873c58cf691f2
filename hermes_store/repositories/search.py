"""Finding messages: rank under all filters first, then dress the page of hits (rules SEARCH-5 to SEARCH-7).

A search is a small, fixed number of statements however many hits there are.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, bindparam, func, literal_column, not_, or_, select

from hermes_store.database.connection import Connection
from hermes_store.database.statements import Statement
from hermes_store.errors import EmptyQuery, InvalidValue
from hermes_store.fts.constructs import matches, rank_of, snippet_of, source_of
from hermes_store.fts.indexes import BASE_INDEX, TRIGRAM_INDEX, Index
from hermes_store.fts.query import Operator, Route, SearchPlan, Term, plan, spellings_of
from hermes_store.fts.state import SearchCapability, capability
from hermes_store.models.tables import MESSAGES, SESSIONS
from hermes_store.repositories.constructs import constant, ids_in, numbers_in
from hermes_store.repositories.records import SearchHit
from hermes_store.repositories.search_context import contexts_of
from hermes_store.text import scrub

SORT_ORDERS = (None, "newest", "oldest")
_SCAN_SNIPPET = 120
_SCAN_BEFORE = 40

_m, _s = MESSAGES.c, SESSIONS.c


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which messages may be hits; None does not restrict.

    sort: None for the best match first, "newest" or "oldest". An empty `sources` admits nothing.
    """

    sources: tuple[str, ...] | None = None
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    include_inactive: bool = False
    sort: str | None = None


class SearchRepository:
    """Full-text search over messages of all sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def messages(
        self,
        query: str,
        wanted: SearchFilter = SearchFilter(),
        *,
        limit: int = 20,
        offset: int = 0,
        with_context: bool = True,
    ) -> list[SearchHit]:
        """The hits of a query, best first; a negative limit gives all. Rules SEARCH-1 to SEARCH-7.

        Raises EmptyQuery when the text holds nothing to look for.
        """
        if wanted.sort not in SORT_ORDERS:
            raise InvalidValue(f"the order {wanted.sort!r} is not known; it can be 'newest', 'oldest' or None")
        chosen = self.plan(query, wanted)
        if chosen.is_empty:
            raise EmptyQuery(f"the query {query!r} holds nothing to look for; give a word or a phrase")
        page = {"limit": limit, "offset": max(offset, 0)}
        if chosen.route is Route.SCAN:
            return self._scan(chosen, wanted, page, with_context=with_context)
        index = BASE_INDEX if chosen.route is Route.WORDS else TRIGRAM_INDEX
        found = self._ranked(index, chosen.match, wanted, page)
        match = chosen.match
        if not found and chosen.fallback and offset <= 0:
            # A word may be glued to CJK text or stand inside a longer one.
            index, match = TRIGRAM_INDEX, chosen.fallback
            found = self._ranked(index, match, wanted, page)
        return self._dress(found, index, match, with_context=with_context)

    def plan(self, query: str, wanted: SearchFilter = SearchFilter()) -> SearchPlan:
        """How the query would be answered now, and why."""
        able: SearchCapability = capability(self._connection)
        return plan(scrub(query), words=able.words, trigram=able.trigram, tool_rows="tool" in wanted.roles)

    # -- by index -------------------------------------------------------------------------------------------

    def _ranked(self, index: Index, match: str, wanted: SearchFilter, page: dict[str, Any]) -> list[int]:
        statement = _ranked_statement(index, wanted)
        rows = self._connection.rows(statement, {"match": match, **_filter_values(wanted), **page})
        return [row[0] for row in rows]

    def _dress(self, found: list[int], index: Index, match: str, *, with_context: bool) -> list[SearchHit]:
        if not found:
            return []
        rows = self._connection.rows(_dress_statement(index), {"match": match, "message_ids": json.dumps(found)})
        return self._hits(found, rows, with_context=with_context)

    # -- by scan --------------------------------------------------------------------------------------------

    def _scan(
        self, chosen: SearchPlan, wanted: SearchFilter, page: dict[str, Any], *, with_context: bool
    ) -> list[SearchHit]:
        first = chosen.groups[0][0].text
        begin = func.max(constant(1), func.instr(func.lower(_m.content), func.lower(bindparam("first"))) - _SCAN_BEFORE)
        columns = _hit_columns(func.substr(_m.content, begin, constant(_SCAN_SNIPPET)))
        query = (
            select(*columns)
            .join_from(MESSAGES, SESSIONS, _s.id == _m.session_id)
            .where(_scan_condition(chosen), *_conditions(wanted))
            .order_by(_m.id.asc() if wanted.sort == "oldest" else _m.id.desc())
            .limit(bindparam("limit"))
            .offset(bindparam("offset"))
        )
        rows = self._connection.rows(Statement(query), {"first": first, **_filter_values(wanted), **page})
        return self._hits([row[0] for row in rows], rows, with_context=with_context)

    # -- dressing -------------------------------------------------------------------------------------------

    def _hits(self, order: list[int], rows: list[tuple[Any, ...]], *, with_context: bool) -> list[SearchHit]:
        contexts = contexts_of(self._connection, order) if with_context and order else {}
        by_id: dict[int, Any] = {row[0]: row for row in rows}
        return [_hit((*by_id[hit], contexts.get(hit, ()))) for hit in order if hit in by_id]


def _hit(values: tuple[Any, ...]) -> SearchHit:
    return SearchHit(*values)


def _hit_columns(snippet: ColumnElement[Any]) -> tuple[ColumnElement[Any], ...]:
    return (
        _m.id,
        _m.session_id,
        _m.role,
        snippet,
        _m.timestamp,
        _m.tool_name,
        _s.source,
        _s.model,
        _s.started_at,
    )


def _conditions(wanted: SearchFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if not wanted.include_inactive:
        conditions.append(or_(_m.active == constant(1), _m.compacted == constant(1)))
    if wanted.sources is not None:
        conditions.append(_s.source.in_(ids_in("sources")))
    if wanted.exclude_sources:
        conditions.append(_s.source.not_in(ids_in("exclude_sources")))
    if wanted.roles:
        conditions.append(_m.role.in_(ids_in("roles")))
    return conditions


def _filter_values(wanted: SearchFilter) -> dict[str, Any]:
    return {
        "sources": json.dumps(wanted.sources),
        "exclude_sources": json.dumps(wanted.exclude_sources),
        "roles": json.dumps(wanted.roles),
    }


def _shape(wanted: SearchFilter) -> SearchFilter:
    """The filter without its values: one compiled statement serves all of one shape."""
    return SearchFilter(
        sources=None if wanted.sources is None else (),
        exclude_sources=("",) if wanted.exclude_sources else (),
        roles=("",) if wanted.roles else (),
        include_inactive=wanted.include_inactive,
        sort=wanted.sort,
    )


def _ranked_statement(index: Index, wanted: SearchFilter) -> Statement:
    return _compiled_ranked(index, _shape(wanted))


@cache
def _compiled_ranked(index: Index, shape: SearchFilter) -> Statement:
    source = source_of(index)
    query: Select[Any] = select(_m.id).select_from(source).join(MESSAGES, _m.id == source.c.rowid)
    if shape.sources is not None or shape.exclude_sources:
        query = query.join(SESSIONS, _s.id == _m.session_id)
    order: tuple[ColumnElement[Any], ...] = (rank_of(index), _m.id)
    # By id, not by time: clocks go back, and what was stored later is newer.
    if shape.sort == "newest":
        order = (_m.id.desc(),)
    elif shape.sort == "oldest":
        order = (_m.id.asc(),)
    return Statement(
        query.where(matches(index), *_conditions(shape))
        .order_by(*order)
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )


@cache
def _dress_statement(index: Index) -> Statement:
    source = source_of(index)
    return Statement(
        select(*_hit_columns(snippet_of(index)))
        .select_from(source)
        .join(MESSAGES, _m.id == source.c.rowid)
        .join(SESSIONS, _s.id == _m.session_id)
        .where(matches(index), source.c.rowid.in_(numbers_in("message_ids")))
    )


def _scan_condition(chosen: SearchPlan) -> ColumnElement[bool]:
    """The groups of a plan over the stored text, upper and lower case of ASCII letters alike."""
    return or_(*(and_(*(_holds(term) for term in group)) for group in chosen.groups))


def _holds(term: Term) -> ColumnElement[bool]:
    # Structured content and tool calls are ASCII JSON: other characters stand in them as escapes. `instr`, not LIKE,
    # because LIKE ends at the NUL that structured content begins with.
    somewhere = or_(
        *(
            func.instr(func.lower(column), bindparam(None, spelling.lower(), Text())) > literal_column("0")
            for spelling in spellings_of(term)
            for column in (_m.content, _m.tool_name, _m.tool_calls)
        )
    )
    found = func.coalesce(somewhere, literal_column("0")) != literal_column("0")
    return not_(found) if term.operator is Operator.NOT else found
