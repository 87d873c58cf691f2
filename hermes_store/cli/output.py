"""What the commands print: data on stdout, talk on stderr."""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hermes_store.errors import HermesStoreError
from hermes_store.portability.export import json_text

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_ACTION = 0, 1, 2, 3

_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(13, 32), 127, *range(0x80, 0xA0)), 0xFFFD)


class OutputClosed(Exception):
    """The reader of stdout has seen enough."""


class OutputMissing(HermesStoreError):
    """There is no stdout to write to."""


def talk(text: str) -> None:
    """Say one thing to a person, on stderr, in one line."""
    line = " ".join(clean(text).split("\n"))
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


class DataConsole(Console):
    """A console on stdout whose reader may stop reading."""

    def on_broken_pipe(self) -> None:
        """As for every other output."""
        raise OutputClosed


def clean(text: object) -> str:
    """Stored text made safe for a terminal: no control characters, no lone surrogates."""
    return str(text).translate(_CONTROL).encode("utf-8", "replace").decode()


def write_line(text: str) -> None:
    """One line of data, in UTF-8 whatever the locale says."""
    if sys.stdout is None:
        raise OutputMissing
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    write_line(json_text(value))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table. On a terminal it is cut to the width; elsewhere every value is whole, one row a line."""
    cleaned = [[clean(value).replace("\n", " ").replace("\r", " ") for value in row] for row in rows]
    if sys.stdout is not None and sys.stdout.isatty():
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="ellipsis", no_wrap=True)
        for row in cleaned:
            table.add_row(*(Text(value) for value in row))
        DataConsole(highlight=False).print(table)
        return
    lines = [list(columns), *cleaned]
    widths = [max(cell_len(line[position]) for line in lines) for position in range(len(columns))]
    for line in lines:
        padded = (value + " " * (width - cell_len(value)) for value, width in zip(line, widths, strict=True))
        write_line("  ".join(padded).rstrip())


def moment(seconds: float | None) -> str:
    """Unix seconds as local time; a dash for none or for what no calendar has."""
    if seconds is None:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError, TypeError):
        return "-"


def number(value: object) -> str:
    """A number with separators; whatever else a file holds in its place as it is."""
    return f"{value:,}" if isinstance(value, (int, float)) else str(value or 0)
