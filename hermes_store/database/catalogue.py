"""Editing the catalogue of a file, for what SQL has no word for: a virtual table that goes while its data stays."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection


def quoted(name: str) -> str:
    """A name of the catalogue as SQL has to say it, whatever it is made of."""
    return '"' + name.replace('"', '""') + '"'


def set_aside(connection: "Connection", virtual_tables: Iterable[str], renamed: Mapping[str, str]) -> bool:
    """Forget virtual tables and give the tables under them other names, inside an open unit.

    `renamed`: old name to new name. The cost does not depend on how much the tables hold, and dropping a virtual table
    would need its module. Nothing may have been written to the virtual tables in the same unit. Returns False, with
    nothing changed, where the library was built so that no catalogue can be edited.
    """
    before = connection.sql("PRAGMA legacy_alter_table")[0][0]
    connection.sql("PRAGMA writable_schema=ON")
    try:
        if not connection.sql("PRAGMA writable_schema")[0][0]:
            return False
        for name in virtual_tables:
            connection.sql("DELETE FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
        # The tables under them are ordinary ones only after the catalogue was read again.
        connection.sql("PRAGMA writable_schema=RESET")
        # Views that refer to nothing, which any file may have, are no obstacle then.
        connection.sql("PRAGMA legacy_alter_table=ON")
        for old, new in renamed.items():
            connection.sql(f'ALTER TABLE "{old}" RENAME TO "{new}"')
    finally:
        # Whatever happened to the unit: these belong to the connection.
        connection.raw.execute("PRAGMA writable_schema=OFF")
        connection.raw.execute(f"PRAGMA legacy_alter_table={before}")
    return True
