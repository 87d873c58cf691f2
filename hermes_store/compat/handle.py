"""The store under a `SessionDB`: opening it, reaching it, closing it. The methods of every area stand on this."""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from hermes_store.errors import StoreClosed
from hermes_store.home import default_store_path
from hermes_store.store import Store, Unit

T = TypeVar("T")


class Handle:
    """A store that is open until it is closed."""

    _store: Store | None = None

    def __init__(self, db_path: str | os.PathLike[str] | None = None, read_only: bool = False) -> None:  # noqa: FBT001, FBT002
        self._path = default_store_path() if db_path is None else Path(db_path)
        self._store = Store.open(self._path, read_only=read_only)

    @property
    def db_path(self) -> Path:
        """The file that this handle has open."""
        return self._path

    @property
    def store(self) -> Store:
        """The store underneath. Raises StoreClosed after close()."""
        if self._store is None:
            raise StoreClosed
        return self._store

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write_transcript(self, fn: Callable[[Unit], T]) -> T:
        return self.store.write(fn, patience=self.store.settings.transcript_patience)
