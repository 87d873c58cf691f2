"""What a search statement says about an index, as SQLAlchemy expressions (rule SEARCH-5)."""

from typing import Any

from sqlalchemy import ColumnElement, TableClause, bindparam, column, func, literal_column, table

from hermes_store.fts.indexes import Index

MARK_BEGIN = ">>>"
MARK_END = "<<<"
ELLIPSIS = "..."
SNIPPET_TOKENS = 40


def source_of(index: Index) -> TableClause:
    """The index as something to select from."""
    return table(index.name, column("rowid"), column("rank"))


def matches(index: Index) -> ColumnElement[bool]:
    """The rows that the parameter `match` asks for."""
    asked: ColumnElement[bool] = literal_column(index.name).op("MATCH", is_comparison=True)(bindparam("match"))
    return asked


def rank_of(index: Index) -> ColumnElement[float]:
    """How well a row matches: smaller is better."""
    rank: ColumnElement[float] = source_of(index).c.rank
    return rank


def snippet_of(index: Index) -> ColumnElement[str]:
    """Up to 40 tokens around the match, the matched words between `>>>` and `<<<`."""
    snippet: Any = func.snippet(
        literal_column(index.name),
        literal_column("-1"),
        literal_column(f"'{MARK_BEGIN}'"),
        literal_column(f"'{MARK_END}'"),
        literal_column(f"'{ELLIPSIS}'"),
        literal_column(str(SNIPPET_TOKENS)),
    )
    return snippet  # type: ignore[no-any-return]
