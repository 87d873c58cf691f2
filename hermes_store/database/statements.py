"""SQL that is compiled once from a SQLAlchemy statement and then runs on the driver's own cursor.

Executing a Core statement costs about 1.6 times the hand-written call; the same SQL compiled beforehand costs about
1.05. Statements stay portable: only the compiled text is SQLite's.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.sql.base import Executable

_DIALECT = sqlite.dialect(paramstyle="qmark")


class Statement:
    """A statement with named parameters, compiled at its first use."""

    __slots__ = ("_clause", "_constants", "_pick", "_sql")

    def __init__(self, clause: "Executable") -> None:
        self._clause = clause
        self._constants: dict[str, Any] = {}
        self._pick: Callable[[Mapping[str, Any]], tuple[Any, ...]] | None = None
        self._sql = ""

    def bound(self, values: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        """The text, and the values in the order of its placeholders.

        Raises KeyError for a parameter that was not given.
        """
        pick = self._pick
        if pick is None:
            pick = self._compile()
        return self._sql, pick({**self._constants, **values} if self._constants else values)

    def _compile(self) -> "Callable[[Mapping[str, Any]], tuple[Any, ...]]":
        compiled = self._clause.compile(dialect=_DIALECT)  # type: ignore[attr-defined]
        names: list[str] = list(compiled.positiontup or ())
        self._constants = {name: compiled.params[name] for name in names if compiled.params[name] is not None}
        self._sql = str(compiled)
        self._pick = _picker(names)
        return self._pick


def _picker(names: list[str]) -> "Callable[[Mapping[str, Any]], tuple[Any, ...]]":
    if not names:
        return lambda _: ()
    if len(names) == 1:
        only = names[0]
        return lambda values: (values[only],)
    return itemgetter(*names)
