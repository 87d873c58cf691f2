"""The statements of a search, compiled once per shape of filter and query (rules SEARCH-5 and SEARCH-7)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Text, and_, bindparam, case, func, not_, null, or_, select

from hermes_store.database.connection import FOLD_FUNCTION
from hermes_store.database.statements import Statement
from hermes_store.errors import InvalidValue
from hermes_store.fts.constructs import matches, rank_of, snippet_of, source_of
from hermes_store.fts.indexes import Index
from hermes_store.fts.query import Operator, SearchPlan, Term, spellings_of
from hermes_store.models.tables import MESSAGES, SESSIONS
from hermes_store.repositories.constructs import constant, id_list, ids_in, numbers_in
from hermes_store.text import fold, is_folded_by_ascii

QUOTED_BY_INDEX = 20_000
"""Characters of a text up to which an index makes the snippet."""

SORT_ORDERS = (None, "newest", "oldest")

_m, _s = MESSAGES.c, SESSIONS.c


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which messages may be hits; None does not restrict.

    sort: None for the best match first, "newest" or "oldest". An empty `sources` admits nothing.
    Raises InvalidValue for another sort.
    """

    sources: tuple[str, ...] | None = None
    exclude_sources: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    include_inactive: bool = False
    sort: str | None = None

    def __post_init__(self) -> None:
        if self.sort not in SORT_ORDERS:
            raise InvalidValue(f"the order {self.sort!r} is not known; it can be 'newest', 'oldest' or None")

    def shape(self) -> "FilterShape":
        """The filter without its values: one compiled statement serves all of one shape."""
        return FilterShape(
            self.sources is not None, bool(self.exclude_sources), bool(self.roles), self.include_inactive, self.sort
        )

    def values(self) -> dict[str, Any]:
        """What the parameters of the filter are bound to."""
        given = {}
        if self.sources is not None:
            given["sources"] = id_list(self.sources)
        if self.exclude_sources:
            given["exclude_sources"] = id_list(self.exclude_sources)
        if self.roles:
            given["roles"] = id_list(self.roles)
        return given


class FilterShape(NamedTuple):
    """Which conditions, and which order, a search has."""

    sources: bool
    exclude_sources: bool
    roles: bool
    include_inactive: bool
    sort: str | None


def _conditions(wanted: FilterShape) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if not wanted.include_inactive:
        conditions.append(or_(_m.active == constant(1), _m.compacted == constant(1)))
    if wanted.sources:
        conditions.append(_s.source.in_(ids_in("sources")))
    if wanted.exclude_sources:
        conditions.append(_s.source.not_in(ids_in("exclude_sources")))
    if wanted.roles:
        conditions.append(_m.role.in_(ids_in("roles")))
    return conditions


def _paged(query: Select[Any]) -> Statement:
    return Statement(query.limit(bindparam("limit")).offset(bindparam("offset")))


# -- by index -----------------------------------------------------------------------------------------------


@cache
def ranked(index: Index, shape: FilterShape) -> Statement:
    """Ids of the rows that an index finds, under all filters, in the order that was asked for."""
    source = source_of(index)
    # Joined without a filter too: a message whose session is missing is no hit, and must not count in a page.
    query = (
        select(_m.id).select_from(source).join(MESSAGES, _m.id == source.c.rowid).join(SESSIONS, _s.id == _m.session_id)
    )
    # By id, not by time: clocks go back, and what was stored later is newer.
    orders: dict[str | None, tuple[ColumnElement[Any], ...]] = {
        None: (rank_of(index), _m.id),
        "newest": (_m.id.desc(),),
        "oldest": (_m.id.asc(),),
    }
    return _paged(query.where(matches(index), *_conditions(shape)).order_by(*orders[shape.sort]))


def _hit_columns(snippet: ColumnElement[Any]) -> tuple[ColumnElement[Any], ...]:
    """The columns of a hit, in the order of `SearchHit`."""
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


@cache
def dressed(index: Index | None) -> Statement:
    """Everything of given rows: the columns of a hit, then content (where a snippet needs it) and tool calls."""
    if index is None:
        columns = (*_hit_columns(null()), _m.content, _m.tool_calls)
        of_page = _m.id.in_(numbers_in("message_ids"))
        return Statement(select(*columns).join_from(MESSAGES, SESSIONS, _s.id == _m.session_id).where(of_page))
    source = source_of(index)
    # What an index quotes of structured content is JSON, and of a long text it takes the square of its matches.
    by_hand = or_(
        func.substr(_m.content, constant(1), constant(1)) == func.char(constant(0)),
        func.length(func.coalesce(_m.content, constant(""))) > constant(QUOTED_BY_INDEX),
        func.length(func.coalesce(_m.tool_calls, constant(""))) > constant(QUOTED_BY_INDEX),
    )
    snippet = case((by_hand, null()), else_=snippet_of(index))
    content = case((by_hand, func.coalesce(_m.content, constant(""))), else_=null())
    return Statement(
        select(*_hit_columns(snippet), content, _m.tool_calls)
        .select_from(source)
        .join(MESSAGES, _m.id == source.c.rowid)
        .join(SESSIONS, _s.id == _m.session_id)
        # Plus nothing: given the bare row ids, FTS5 would run the whole query once for every one of them.
        .where(matches(index), (source.c.rowid + constant(0)).in_(numbers_in("message_ids")))
    )


# -- by scan ------------------------------------------------------------------------------------------------

# For every term: is it unwanted, and which function folds each of its spellings.
_ScanShape = tuple[tuple[tuple[bool, tuple[str, ...]], ...], ...]


def scan_values(chosen: SearchPlan) -> dict[str, str]:
    """What the parameters of `scanned` are bound to."""
    spelled = (each for group in chosen.groups for term in group for each in _spelled(term))
    return {f"needle_{number}": text for number, (_, text) in enumerate(spelled)}


def scanned(chosen: SearchPlan, wanted: SearchFilter) -> Statement:
    """Ids of the rows whose stored text answers a plan, the newest first unless asked otherwise."""
    shape = tuple(
        tuple((term.operator is Operator.NOT, tuple(folded for folded, _ in _spelled(term))) for term in group)
        for group in chosen.groups
    )
    return _scanned(shape, wanted.shape())


def _spelled(term: Term) -> list[tuple[str, str]]:
    """Every way in which a term may stand in a row, folded, with the name of the function that folds the row.

    Structured content and tool calls are ASCII JSON, where other characters stand as escapes.
    """
    plain, *escaped = spellings_of(term)
    first = ("lower", plain.lower()) if is_folded_by_ascii(plain) else (FOLD_FUNCTION, fold(plain))
    return [first, *(("lower", each.lower()) for each in escaped)]


@lru_cache(maxsize=128)
def _scanned(groups: _ScanShape, shape: FilterShape) -> Statement:
    numbers = iter(range(10_000))
    condition = or_(*(and_(*(_holds(term, numbers) for term in group)) for group in groups))
    query = (
        select(_m.id)
        .join_from(MESSAGES, SESSIONS, _s.id == _m.session_id)
        .where(condition, *_conditions(shape))
        .order_by(_m.id.asc() if shape.sort == "oldest" else _m.id.desc())
    )
    return _paged(query)


def _holds(term: tuple[bool, tuple[str, ...]], numbers: Iterator[int]) -> ColumnElement[bool]:
    """The term stands in one of the three texts. `instr`, because LIKE ends at a NUL."""
    unwanted, folds = term
    tests: list[ColumnElement[bool]] = []
    for name in folds:
        folded: Callable[..., Any] = getattr(func, name)
        needle = bindparam(f"needle_{next(numbers)}", type_=Text())
        tests.extend(
            func.coalesce(func.instr(folded(column), needle), constant(0)) > constant(0)
            for column in (_m.content, _m.tool_name, _m.tool_calls)
        )
    somewhere = or_(*tests)
    return not_(somewhere) if unwanted else somewhere
