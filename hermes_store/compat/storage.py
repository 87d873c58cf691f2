"""The layout of the search indexes and their rebuild, as Hermes Agent reports them (rules FTS-8 to FTS-11)."""

import dataclasses
from collections.abc import Callable
from typing import Any

from hermes_store.compat.handle import Handle
from hermes_store.errors import StoreLocked
from hermes_store.fts.rebuild import status, step
from hermes_store.maintenance.optimize import StorageProgress, is_optimize_available, optimize_storage
from hermes_store.store import Store


class StorageMethods(Handle):
    """The methods of `SessionDB` that change the layout of the search indexes."""

    def fts_optimize_available(self) -> bool:
        """Whether `optimize_fts_storage` has anything to do; False for a handle that only reads. Rule FTS-8."""
        return self._with_store(is_optimize_available)

    def optimize_fts_storage(
        self, *, progress_cb: Callable[[dict[str, Any]], object] | None = None, vacuum: bool = True
    ) -> dict[str, Any]:
        """Bring the indexes to today's layout; other handles may write and search meanwhile. Rules FTS-8 to FTS-11.

        `progress_cb` gets dicts of `phase`, `percent`, `indexed`, `total`. Returns `ok` with `vacuumed` (None without
        vacuum, False where it failed) or with `reason`. Raises what `optimize_storage` raises, and what the callback
        raises; the next call goes on from there.
        """
        tell = None if progress_cb is None else _as_dicts(progress_cb)
        return self._with_store(
            lambda store: optimize_storage(store, progress=tell, vacuum=bool(vacuum)).as_dict(),
        )

    def fts_rebuild_status(self) -> dict[str, Any] | None:
        """`pending`, `total`, `indexed` and `percent` of a rebuild, in ids; None where none is. Rule FTS-9."""
        with self._reader() as reader:
            now = status(reader.connection)
        if now is None:
            return None
        return {"pending": True, "total": now.total, "indexed": now.indexed, "percent": now.percent}

    def fts_rebuild_step(self) -> bool:
        """Add the messages of the next 500 ids to the indexes; True while more are left. Rule FTS-9.

        True also where the file was locked: call again later. False for a handle that only reads.
        """
        return self._with_store(_step)


def _step(store: Store) -> bool:
    if store.read_only or not store.driver.has_fts5:
        return False
    try:
        return store.write(lambda unit: step(unit.connection))
    except StoreLocked:
        return True


def _as_dicts(progress_cb: Callable[[dict[str, Any]], object]) -> Callable[[StorageProgress], object]:
    return lambda progress: progress_cb(dataclasses.asdict(progress))
