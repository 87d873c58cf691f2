"""Reading files that are behind without changing them (rule SCHEMA-8).

A reading connection of an older file sees temporary views in place of the tables that lack columns: the views add the
missing columns with their defaults, and put the default in the place of NULL where that may not be, so that every
statement of the library runs as it is.
"""

from typing import TYPE_CHECKING

from hermes_store.errors import NotAStore, SchemaTooOld
from hermes_store.models import Base
from hermes_store.schema.recognise import columns_of, recognise
from hermes_store.schema.repair import loose_columns
from hermes_store.schema.traits import traits_of

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def prepare_for_reading(connection: "Connection", name: str) -> None:
    """Lay temporary views over tables that lack columns of the models, and empty ones for tables that are missing.

    Raises NotAStore unless the file holds transcripts, SchemaTooOld where a column has no default.
    """
    if not recognise(connection, name).has_transcripts:
        raise NotAStore(f"{name} holds no sessions and messages; open it once for writing to make them")
    connection.traits = traits_of(connection)
    loose = loose_columns(connection)
    for table in Base.metadata.sorted_tables:
        columns = columns_of(connection, table.name)
        live = {name.lower() for name in columns}
        missing = [column for column in table.columns if column.name.lower() not in live]
        if not live:
            empty = ", ".join(f'NULL AS "{column.name}"' for column in table.columns)
            connection.sql(f"CREATE TEMP VIEW {table.name} AS SELECT {empty} WHERE 0")
            continue
        for column in missing:
            if not column.nullable and column.server_default is None:
                raise SchemaTooOld(f"the table {table.name!r} of this file has no column {column.name!r}")
        instead = {column: default for (owner, column), default in loose.items() if owner == table.name}
        if missing or instead:
            shown = [_shown(name, instead.get(name.lower())) for name in columns]
            shown.extend(f'{_default(column)} AS "{column.name}"' for column in missing)
            connection.sql(f"CREATE TEMP VIEW {table.name} AS SELECT {', '.join(shown)} FROM main.{table.name}")


def _shown(name: str, in_place_of_null: str | None) -> str:
    """A column of the file; NULL in one that may not be would hide what it belongs to."""
    quoted = '"' + name.replace('"', '""') + '"'
    return quoted if in_place_of_null is None else f"COALESCE({quoted}, {in_place_of_null}) AS {quoted}"


def _default(column: object) -> str:
    default = getattr(getattr(column, "server_default", None), "arg", None)
    return str(default) if default is not None else "NULL"
