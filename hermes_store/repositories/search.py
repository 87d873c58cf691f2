"""Finding messages: rank under all filters first, then dress the page of hits (rules SEARCH-5 to SEARCH-7).

A search is a small, fixed number of statements however many hits there are.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, bindparam, case, func, not_, null, or_, select

from hermes_store.conversation.excerpt import best_text, excerpt, marked_excerpt, readable_texts
from hermes_store.database.connection import FOLD_FUNCTION, Connection
from hermes_store.database.statements import Statement
from hermes_store.errors import EmptyQuery, InvalidValue
from hermes_store.fts.constructs import MARK_BEGIN, MARK_END, matches, rank_of, snippet_of, source_of
from hermes_store.fts.indexes import BASE_INDEX, TRIGRAM_INDEX, Index
from hermes_store.fts.query import Operator, Route, SearchPlan, Term, plan, spellings_of
from hermes_store.fts.state import SearchCapability, capability
from hermes_store.models.tables import MESSAGES, SESSIONS
from hermes_store.repositories.constructs import constant, id_list, ids_in, numbers_in
from hermes_store.repositories.records import SearchHit
from hermes_store.repositories.search_context import contexts_of
from hermes_store.text import fold, is_folded_by_ascii

SORT_ORDERS = (None, "newest", "oldest")

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
        if not isinstance(query, str):
            raise InvalidValue(f"a query is a text, not {type(query).__name__}")
        if wanted.sort not in SORT_ORDERS:
            raise InvalidValue(f"the order {wanted.sort!r} is not known; it can be 'newest', 'oldest' or None")
        chosen = self.plan(query, wanted)
        if chosen.is_empty:
            raise EmptyQuery(f"the query {query!r} holds nothing to look for; give a word or a phrase")
        page = {"limit": limit, "offset": max(offset, 0)}
        index = {Route.WORDS: BASE_INDEX, Route.SUBSTRINGS: TRIGRAM_INDEX}.get(chosen.route)
        if index is None:
            return self._dress(self._scanned(chosen, wanted, page), chosen, None, "", with_context=with_context)
        match = chosen.match
        found = self._ranked(index, match, wanted, page)
        if not found and chosen.fallback and not self._has_earlier_page(index, match, wanted, offset):
            # A word may be glued to CJK text or stand inside a longer one.
            index, match = TRIGRAM_INDEX, chosen.fallback
            found = self._ranked(index, match, wanted, page)
        return self._dress(found, chosen, index, match, with_context=with_context)

    def _has_earlier_page(self, index: Index, match: str, wanted: SearchFilter, offset: int) -> bool:
        """True if an empty page is the end of results, and not a query without any."""
        return offset > 0 and bool(self._ranked(index, match, wanted, {"limit": 1, "offset": 0}))

    def plan(self, query: str, wanted: SearchFilter = SearchFilter()) -> SearchPlan:
        """How the query would be answered now, and why."""
        able: SearchCapability = capability(self._connection)
        return plan(
            query,
            words=able.words,
            trigram=able.trigram,
            past_nul=able.past_nul,
            tool_rows="tool" in wanted.roles,
        )

    # -- by index -------------------------------------------------------------------------------------------

    def _ranked(self, index: Index, match: str, wanted: SearchFilter, page: dict[str, Any]) -> list[int]:
        statement = _ranked_statement(index, wanted)
        rows = self._connection.rows(statement, {"match": match, **_filter_values(wanted), **page})
        return [row[0] for row in rows]

    # -- by scan --------------------------------------------------------------------------------------------

    def _scanned(self, chosen: SearchPlan, wanted: SearchFilter, page: dict[str, Any]) -> list[int]:
        query = (
            select(_m.id)
            .join_from(MESSAGES, SESSIONS, _s.id == _m.session_id)
            .where(_scan_condition(chosen), *_conditions(wanted))
            .order_by(_m.id.asc() if wanted.sort == "oldest" else _m.id.desc())
            .limit(bindparam("limit"))
            .offset(bindparam("offset"))
        )
        return [row[0] for row in self._connection.rows(Statement(query), {**_filter_values(wanted), **page})]

    # -- dressing -------------------------------------------------------------------------------------------

    def _dress(
        self, found: list[int], chosen: SearchPlan, index: Index | None, match: str, *, with_context: bool
    ) -> list[SearchHit]:
        """Everything else of the hits: snippet, message, session, context; three statements. Rules SEARCH-6, -8."""
        if not found:
            return []
        values = {"match": match, "message_ids": json.dumps(found)}
        contexts = contexts_of(self._connection, found) if with_context else {}
        needles = [term.text for group in chosen.groups for term in group if term.operator is not Operator.NOT]
        hits: dict[int, SearchHit] = {}
        for row in self._connection.rows(_dress_statement(index), values):
            row_id, session_id, role, snippet, timestamp, tool_name, source, model, started, content, tool_calls = row
            if index is None:
                snippet = excerpt(best_text(readable_texts(content, tool_name, tool_calls), needles), needles)
            elif content is not None:
                # Structured content: what an index quotes of it is JSON.
                text = best_text(readable_texts(content, tool_name, tool_calls), needles)
                snippet = marked_excerpt(text, needles, MARK_BEGIN, MARK_END)
            context = contexts.get(row_id, ())
            hits[row_id] = SearchHit(
                row_id, session_id, role, snippet, timestamp, tool_name, source, model, started, context
            )
        return [hits[row_id] for row_id in found if row_id in hits]


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
        "sources": id_list(wanted.sources or ()),
        "exclude_sources": id_list(wanted.exclude_sources),
        "roles": id_list(wanted.roles),
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
def _dress_statement(index: Index | None) -> Statement:
    if index is None:
        columns = (*_hit_columns(null()), _m.content, _m.tool_calls)
        wanted = _m.id.in_(numbers_in("message_ids"))
        return Statement(select(*columns).join_from(MESSAGES, SESSIONS, _s.id == _m.session_id).where(wanted))
    source = source_of(index)
    structured = func.substr(_m.content, constant(1), constant(1)) == func.char(constant(0))
    content = case((structured, _m.content), else_=null())
    return Statement(
        select(*_hit_columns(snippet_of(index)), content, _m.tool_calls)
        .select_from(source)
        .join(MESSAGES, _m.id == source.c.rowid)
        .join(SESSIONS, _s.id == _m.session_id)
        .where(matches(index), source.c.rowid.in_(numbers_in("message_ids")))
    )


def _scan_condition(chosen: SearchPlan) -> ColumnElement[bool]:
    """The groups of a plan over the stored text, upper and lower case of ASCII letters alike."""
    return or_(*(and_(*(_holds(term) for term in group)) for group in chosen.groups))


def _holds(term: Term) -> ColumnElement[bool]:
    """The term stands in one of the three texts; its case does not matter.

    Structured content and tool calls are ASCII JSON, where other characters stand as escapes. `instr`, not LIKE,
    because LIKE ends at the NUL that structured content begins with.
    """
    plain, *escaped = spellings_of(term)
    tests: list[tuple[Any, str]] = [(func.lower, spelling.lower()) for spelling in escaped]
    if is_folded_by_ascii(plain):
        tests.append((func.lower, plain.lower()))
    else:
        tests.append((getattr(func, FOLD_FUNCTION), fold(plain)))
    somewhere = or_(
        *(
            func.coalesce(func.instr(folded(column), bindparam(None, text, Text())), constant(0)) > constant(0)
            for folded, text in tests
            for column in (_m.content, _m.tool_name, _m.tool_calls)
        )
    )
    return not_(somewhere) if term.operator is Operator.NOT else somewhere
