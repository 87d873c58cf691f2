"""The maker of large files: as sound as the small ones, and frugal."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.schema.inspecting import describe_all, rows
from tests.snapshots.build import build_version
from tests.snapshots.checking import index_faults
from tests.snapshots.large import PER_SESSION, build_large, session_id
from tests.snapshots.writing import raw


@pytest.mark.parametrize(
    ("version", "variant"), [(8, None), (10, None), (16, None), (16, "late"), (22, None), (23, "late")]
)
@pytest.mark.parametrize("count", [0, PER_SESSION, 1203])
def test_a_large_file_is_sound_and_of_the_shape_of_its_version(
    path: Path, module: Any, version: int, variant: str | None, count: int
) -> None:
    build_large(path, module, version, count, variant=variant)
    small = path.with_name("small.db")
    build_version(small, module, version, variant=variant, sessions=1, turns=1)
    with raw(path, module) as connection, raw(small, module) as other:
        assert describe_all(connection) == describe_all(other)
        objects = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
        assert rows(connection, objects) == rows(other, objects)
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        assert rows(connection, "PRAGMA foreign_key_check") == []
        assert rows(connection, "SELECT count(*) FROM messages") == [(count,)]
        if count:
            assert index_faults(connection, session_id(0)) == []


def test_its_counters_are_true_and_its_rows_are_of_real_size(path: Path, any_module: Any) -> None:
    build_large(path, any_module, 16, 3 * PER_SESSION + 7)
    with raw(path, any_module) as connection:
        counted = rows(connection, "SELECT id, message_count, tool_call_count FROM sessions ORDER BY id")
        held = rows(
            connection,
            "SELECT session_id, count(*), count(tool_calls) FROM messages GROUP BY session_id ORDER BY session_id",
        )
        assert counted == held
        assert len(counted) == 4
        size = "avg(length(CAST(content || COALESCE(tool_calls, '') AS BLOB)))"
        ((mean,),) = rows(connection, f"SELECT {size} FROM messages")
        assert 150 < mean < 400
        assert rows(connection, "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'timeout'") != [(0,)]


def _peak(path: Path, module: Any, count: int) -> int:
    tracemalloc.start()
    try:
        build_large(path, module, 8, count)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_messages(path: Path, any_module: Any) -> None:
    _peak(path.with_name("first.db"), any_module, 500)
    small, large = (_peak(path.with_name(f"{count}.db"), any_module, count) for count in (1000, 10_000))
    assert large < small + 200_000


@pytest.mark.heavy
@pytest.mark.parametrize("version", [8, 16])
def test_a_million_messages(path: Path, any_module: Any, version: int) -> None:
    build_large(path, any_module, version, 1_000_000)
    with raw(path, any_module) as connection:
        assert rows(connection, "SELECT count(*) FROM messages") == [(1_000_000,)]
        assert index_faults(connection, session_id(0)) == []
