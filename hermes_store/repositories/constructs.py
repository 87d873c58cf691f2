"""SQL constructs that every engine spells its own way; the repositories use them by meaning."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Integer, Text, bindparam, column, func, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.sql.selectable import Select

from hermes_store.text import scrub_if_text


class json_value(FunctionElement[Any]):  # noqa: N801 - reads like the SQL function that it stands for
    """The value of one key of a JSON object in a text column: NULL where the text is malformed or no object."""

    inherit_cache = False
    type = Text()

    def __init__(self, document: ColumnElement[Any], key: str) -> None:
        if not key.isidentifier():
            raise ValueError(f"{key!r} is no name of a JSON key")
        self.key_name = key
        super().__init__(document)


@compiles(json_value, "sqlite")
def _json_value_sqlite(element: json_value, compiler: SQLCompiler, **options: Any) -> str:
    document = compiler.process(element.clauses, **options)
    return f"CASE WHEN json_valid({document}) THEN json_extract({document}, '$.{element.key_name}') END"


def constant(value: int | str) -> ColumnElement[Any]:
    """A value of ours, written into the statement: partial indexes can be used, and nothing is bound at every call."""
    return literal_column(str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'")


def ids_in(name: str) -> Select[Any]:
    """The texts of a JSON list that is bound as one parameter: no statement grows with the number of ids."""
    return select(func.json_each(bindparam(name, type_=Text())).table_valued(column("value", Text())).c.value)


def id_list(ids: Iterable[str]) -> str:
    """What `ids_in` is bound to."""
    # An id that is no text is nobody's, but must not keep the others from being found.
    return json.dumps([scrub_if_text(each) for each in ids], default=repr)


def numbers_in(name: str) -> Select[Any]:
    """The integers of a JSON list that is bound as one parameter."""
    return select(func.json_each(bindparam(name, type_=Text())).table_valued(column("value", Integer())).c.value)


def like_literal(text: str) -> str:
    r"""The text with the wildcards of LIKE made literal; the escape character is `\`."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
