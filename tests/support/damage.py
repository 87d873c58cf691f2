"""Damage to closed store files, done through a DB-API module or on their bytes."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.snapshots.writing import alter, raw

INDEXES: Final = ("messages_fts", "messages_fts_trigram")

INDEX_DAMAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "averages gone": "DELETE FROM {index}_data WHERE id = 1",
        "structure zeroed": "UPDATE {index}_data SET block = zeroblob(7) WHERE id = 10",
        "structure gone": "DELETE FROM {index}_data WHERE id = 10",
        "structure garbled": "UPDATE {index}_data SET block = x'FFFFFFFFFFFFFFFF' WHERE id = 10",
        "leaves empty": "UPDATE {index}_data SET block = x'' WHERE id > 10",
        "leaves garbled": "UPDATE {index}_data SET block = x'FFFFFFFFFFFFFFFFFFFFFFFF' WHERE id > 10",
        "leaves gone": "DELETE FROM {index}_data WHERE id > 10",
        "sizes gone": "DELETE FROM {index}_docsize",
        "pages gone": "DELETE FROM {index}_idx",
    }
)
"""What can be wrong with the storage of one search index: a statement each, `{index}` being its name."""

LEAF, INTERIOR = 0x0D, 0x05  # kinds of pages in the tree of a table
_CELLS = slice(3, 5)  # where a page says how many rows it holds


def break_index(driver: Any, path: Path, damage: str, index: str = INDEXES[0]) -> None:
    """Damage the storage of one search index; `damage` is a key of `INDEX_DAMAGES`."""
    alter(path, driver, INDEX_DAMAGES[damage].format(index=index))


def double_in_schema(driver: Any, path: Path, table: str = INDEXES[0]) -> None:
    """Let the schema say twice that there is a table; then no statement works."""
    with raw(path, driver) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_master SELECT * FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
        )


def garble_page(driver: Any, path: Path, table: str = "messages") -> int:
    """Let the leaf page that holds the first rows of a table claim 65,535 rows; returns the number of the page.

    Rows that other pages hold can still be read, and written.
    """
    with raw(path, driver) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    content = bytearray(path.read_bytes())
    while content[offset := (page - 1) * size] == INTERIOR:
        first_cell = offset + int.from_bytes(content[offset + 12 : offset + 14], "big")
        page = int.from_bytes(content[first_cell : first_cell + 4], "big")
    if content[offset] != LEAF or page == 1:
        raise ValueError(f"page {page} is no leaf of {table}")
    content[offset + _CELLS.start : offset + _CELLS.stop] = b"\xff\xff"
    path.write_bytes(content)
    return int(page)


def overwrite(path: Path, content: bytes = b"no database at all, " * 100) -> None:
    """Put something else in the place of a file."""
    path.write_bytes(content)
