"""What a person wants to know of a store before anything else (rule INFO-1)."""

import os
from dataclasses import dataclass
from pathlib import Path

from hermes_store.fts.state import IndexState, index_states
from hermes_store.schema.last_upgrade import LastUpgrade, last_upgrade
from hermes_store.schema.recognise import Recognised, count_rows, recognise
from hermes_store.store import Store


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Which file, which SQLite, which shape, how much is in it. Sizes in bytes."""

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


def describe(store: Store) -> StoreInfo:
    """Look at a store on one snapshot; nothing is changed."""
    with store.reader() as reader:
        connection = reader.connection
        found: Recognised = recognise(connection, str(store.path))
        rows = count_rows(connection, found)
        active = reader.messages.count_live()
        indexes = tuple(index_states(connection))
        upgrade = last_upgrade(connection)
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
    )


def _advice(store: Store, found: Recognised, indexes: tuple[IndexState, ...]) -> list[str]:
    advice = []
    if found.revision is None:
        advice.append("the file was not upgraded by hermes-store yet; run: hermes-store db upgrade")
    if any(index.layout is not None and not index.complete for index in indexes):
        advice.append(
            "a search index lacks messages, so searching is slow; run: hermes-store sessions optimize-storage"
        )
    if store.journal_mode != "wal" and store.driver.wal_safe:
        advice.append("the file is in DELETE mode; in WAL mode readers would not wait for writers")
    if store.journal_mode == "wal" and not store.driver.wal_safe:
        advice.append(f"SQLite {store.driver.version_text} can damage files in WAL mode; use a newer SQLite")
    return advice
