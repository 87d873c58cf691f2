"""The options that stand before every command."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hermes_store.store import Store


@dataclass(frozen=True)
class Options:
    """Which store, and how to print."""

    path: Path
    json: bool

    def open(self, *, read_only: bool = True) -> Store:
        """The store that was named; it is never created. Raises what `Store.open` raises."""
        return Store.open(self.path, read_only=read_only, create=False)


pass_options: Callable[..., Any] = click.make_pass_decorator(Options)
