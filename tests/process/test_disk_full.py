"""A disk without room: an error of ours, nothing half-written, and the store goes on once there is room."""

import sys
from pathlib import Path

import pytest

from tests.process.processes import assert_sound, children, counters_are_right, rows
from tests.support.drivers import Engine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")


@pytest.mark.parametrize("spare", [0, 5_000, 70_000])
def test_an_append_that_does_not_fit(spare: int, engine: Engine, path: Path, tmp_path: Path) -> None:
    with children(1, tmp_path) as (child,):
        *failures, reading, after = child.ask("fill_the_disk", path=str(path), spare=spare, size=300_000)
    for failure in failures:
        assert "error" in failure, failure
    for failure in failures[:2]:  # the unit around a `with` body may be told of its loss instead
        assert {"DiskFull", "DiskFailure"} & set(failure["error"]), failure
        assert "OperationalError" in failure["error"]
    assert reading == {"result": ["before"]}
    assert after == {"result": True}
    found = rows(path, engine, "SELECT session_id, substr(content, 1, 6) FROM messages ORDER BY id")
    assert found == [("a", "before"), ("a", "after ")]
    assert rows(path, engine, "SELECT id FROM sessions") == [("a",)]
    assert counters_are_right(path, engine)
    assert_sound(path, engine)
