"""The declarative base, and the column types that the tables of a state.db use."""

import json
from typing import Any

from sqlalchemy import REAL, Integer, MetaData, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator


class UnixTime(TypeDecorator[float]):
    """Unix seconds as a REAL. `Float` would be DOUBLE in SQLAlchemy 2.1, which the files do not say."""

    impl = REAL
    cache_ok = True


class Flag(TypeDecorator[bool]):
    """0 or 1 as an INTEGER; entities see a bool. `Boolean` would add a type name that the files do not have."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: bool | int | None, dialect: Dialect) -> int | None:
        return None if value is None else int(bool(value))

    def process_result_value(self, value: int | None, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


class JsonText(TypeDecorator[Any]):
    """JSON as text, byte for byte as it was written.

    Entities see objects and lists decoded; whatever is no JSON object or list (malformed text too) stays the raw text,
    so that reading never fails. A str is stored as it is.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return decoded if isinstance(decoded, (dict, list)) else value


class Base(DeclarativeBase):
    """The tables that every store has."""

    type_annotation_map = {str: Text(), int: Integer(), float: REAL()}  # noqa: RUF012 - SQLAlchemy's own spelling


class OnDemandBase(DeclarativeBase):
    """The tables that are made when a feature is used for the first time, never by opening a store.

    They live in a second MetaData, which holds a bare copy of `sessions` so that foreign keys can name it.
    """

    metadata = MetaData()
    type_annotation_map = {str: Text(), int: Integer(), float: REAL()}  # noqa: RUF012 - SQLAlchemy's own spelling
