"""What a person wants to know of a store before anything else (rule INFO-1)."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hermes_store.database.condition import storage_state
from hermes_store.database.vacuum import free_pages, logical_size
from hermes_store.events import Counters
from hermes_store.fts.cure import IndexRepairs, index_repairs
from hermes_store.fts.state import IndexState, index_states
from hermes_store.schema.last_upgrade import LastUpgrade, last_upgrade
from hermes_store.schema.recognise import Recognised, count_rows, recognise
from hermes_store.store import Store


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Which file, which SQLite, which shape, how much is in it. Sizes in bytes.

    log_size: of the log that stands beside the file. free_pages: of the file, which a vacuum gives back. counters: what
    the handle has done that looked at the file; index_repairs: what all handles had to mend.
    """

    path: Path
    size: int
    driver: str
    sqlite_version: str
    wal_safe: bool
    journal_mode: str
    schema_version: int | None
    revision: str | None
    rows: dict[str, int]
    active_messages: int
    indexes: tuple[IndexState, ...]
    advice: tuple[str, ...]
    last_upgrade: LastUpgrade | None
    state: str
    log_size: int
    logical_size: int
    free_pages: int
    index_repairs: IndexRepairs
    counters: Counters


def describe(store: Store) -> StoreInfo:
    """Look at a store on one snapshot; nothing is changed."""
    with store.reader() as reader:
        connection = reader.connection
        found: Recognised = recognise(connection, str(store.path))
        rows = count_rows(connection, found)
        active = reader.messages.count_live()
        indexes = tuple(index_states(connection))
        upgrade = last_upgrade(connection)
        repairs = index_repairs(connection) if "state_meta" in found.tables else IndexRepairs()
        size, free = logical_size(connection), free_pages(connection)
    return StoreInfo(
        path=Path(os.path.realpath(store.path)),
        size=store.path.stat().st_size,
        driver=store.driver.name,
        sqlite_version=store.driver.version_text,
        wal_safe=store.driver.wal_safe,
        journal_mode=store.journal_mode,
        schema_version=found.stamp,
        revision=found.revision,
        rows=rows,
        active_messages=active,
        indexes=indexes,
        advice=tuple(_advice(store, found, indexes)),
        last_upgrade=upgrade,
        state=storage_state(store.path),
        log_size=_log_size(store.path),
        logical_size=size,
        free_pages=free,
        index_repairs=repairs,
        counters=store.counters,
    )


def _log_size(path: Path) -> int:
    real = Path(os.path.realpath(path))
    with suppress(OSError):
        return real.with_name(f"{real.name}-wal").stat().st_size
    return 0


def _advice(store: Store, found: Recognised, indexes: tuple[IndexState, ...]) -> list[str]:
    advice = []
    if found.revision is None:
        advice.append("the file was not upgraded by hermes-store yet; run: hermes-store db upgrade")
    elif any(not index.present for index in indexes) and store.driver.sound:
        advice.append("a search index is missing; opening the store for writing makes it: hermes-store db upgrade")
    if any(index.layout is not None and not index.complete for index in indexes):
        advice.append(
            "a search index lacks messages, so searching is slow; run: hermes-store sessions optimize-storage"
        )
    if store.journal_mode != "wal" and store.driver.wal_safe:
        advice.append("the file is in DELETE mode; in WAL mode readers would not wait for writers")
    if store.journal_mode == "wal" and not store.driver.wal_safe:
        advice.append(f"SQLite {store.driver.version_text} can damage files in WAL mode; use a newer SQLite")
    return advice
