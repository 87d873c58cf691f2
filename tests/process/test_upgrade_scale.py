"""Upgrading large files: memory does not grow with them, every step is told, and the next open is short."""

import sys
from contextlib import closing
from pathlib import Path

import pytest

from hermes_store import connect
from hermes_store.database import load_driver
from hermes_store.fts.indexes import REBUILD_LIMIT
from tests.process.processes import rows
from tests.process.upgrading import upgrader
from tests.snapshots.large import build_large, session_id
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own figures")

MEGABYTE = 1_000_000


SHORT, HEAVY = 15 * MEGABYTE, 150 * MEGABYTE


@pytest.mark.parametrize(
    ("version", "messages", "allowed"),
    [
        pytest.param(8, REBUILD_LIMIT, SHORT, id="v8-indexed"),
        pytest.param(8, 30_000, SHORT, id="v8-short"),
        pytest.param(16, 30_000, SHORT, id="v16-short"),
        pytest.param(8, 1_000_000, HEAVY, id="v8-heavy", marks=pytest.mark.heavy),
        pytest.param(16, 1_000_000, HEAVY, id="v16-heavy", marks=pytest.mark.heavy),
    ],
)
def test_a_large_file(path: Path, tmp_path: Path, engine: Engine, version: int, messages: int, allowed: int) -> None:
    build_large(path, load_driver(engine.driver).module, version, messages)
    with closing(connect(path, driver=engine.driver)) as raw:
        raw.execute(f"PRAGMA journal_mode={engine.journal_mode}").fetchone()
    with upgrader(tmp_path) as child:
        found = child.ask("measured", path=str(path), driver=engine.driver)
    report, steps = found["report"], found["steps"]
    sys.stdout.write(
        f"\nv{version}, {messages:,} messages, {engine.label}: {found['seconds']:.2f} s, "
        f"{found['memory'] / MEGABYTE:.1f} MB over the imports, file of {path.stat().st_size / MEGABYTE:.0f} MB, "
        f"second open {found['second seconds'] * 1000:.1f} ms with {len(found['second statements'])} statements\n"
    )
    assert found["memory"] <= allowed
    assert (report["changed"], report["stamp"], report["revision"]) == (True, version, "0023")
    assert steps == [
        "tables and columns",
        f"revisions {', '.join(report['revisions_run'])}",
        *(f"index {name}" for name in report["indexes_created"]),
        "search indexes",
    ]
    assert (report["search_rebuilt"] != []) == (version == 8 and messages <= REBUILD_LIMIT)
    assert (report["search_pending"] != []) == (version == 8 and messages > REBUILD_LIMIT)
    assert (found["second"]["changed"], found["second"]["revision"]) == (False, "0023")
    assert len([text for text in found["second statements"] if not text.startswith("PRAGMA")]) <= 4
    assert rows(
        path, engine, "SELECT count(*), count(DISTINCT session_id), min(active), max(active) FROM messages"
    ) == [(messages, -(-messages // 500), 1, 1)]
    assert rows(path, engine, f"SELECT count(*) FROM messages WHERE session_id = '{session_id(1)}'") == [(500,)]
