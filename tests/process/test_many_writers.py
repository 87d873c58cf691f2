"""Many threads of many processes write one file: every row arrives once, and is counted and found."""

import os
import time
from pathlib import Path

import pytest

from hermes_store import SearchFilter, SessionDB
from tests.process.processes import assert_sound, children, counters_are_right, names, rows
from tests.support.drivers import Engine


def spread(seconds: list[float]) -> str:
    """Median, 99th percentile and maximum, in milliseconds."""
    ordered = sorted(seconds)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99))
    return f"p50 {p50 * 1000:8.2f} ms   p99 {p99 * 1000:8.2f} ms   max {ordered[-1] * 1000:8.2f} ms"


@pytest.mark.parametrize(
    ("processes", "threads", "appends"),
    [pytest.param(3, 3, 8, id="short"), pytest.param(8, 8, 200, id="heavy", marks=pytest.mark.heavy)],
)
def test_every_append_of_every_thread_arrives_once(
    processes: int, threads: int, appends: int, engine: Engine, path: Path, tmp_path: Path
) -> None:
    with SessionDB(path) as db:
        db.create_session("shared", "cli")
    with children(processes, tmp_path) as started:
        began = time.perf_counter()
        for writer, child in enumerate(started):
            child.tell("append_in_threads", path=str(path), writer=writer, threads=threads, appends=appends)
        told = [child.hear() for child in started]
        seconds = time.perf_counter() - began
    taken = [each for answer in told for each in answer["taken"]]
    waited = [each for answer in told for each in answer["waited"]]
    each = threads * appends
    total = processes * each
    assert len(taken) == total
    print(  # noqa: T201 - figures for whoever asks with -s
        f"\n{engine.label}: {processes} processes x {threads} threads x {appends} appends on {os.cpu_count()} cores: "
        f"{seconds:.1f} s, {total / seconds:.0f} appends/s\n"
        f"  append   {spread(taken)}\n  waiting  {spread(waited)}"
    )

    expected = {
        ("shared" if turn % 2 == 0 else f"own-{writer}", f"writer{writer} said w{writer}t{thread}n{turn} 部署完成了")
        for writer in range(processes)
        for thread in range(threads)
        for turn in range(appends)
    }
    found = rows(path, engine, "SELECT session_id, content FROM messages")
    assert len(found) == len(expected) == total
    assert set(found) == expected
    assert counters_are_right(path, engine)
    tools = {"shared": total // 2, **{f"own-{writer}": each // 2 for writer in range(processes)}}
    assert dict(rows(path, engine, "SELECT id, tool_call_count FROM sessions")) == tools
    assert_sound(path, engine)
    with SessionDB(path) as db, db.store.reader() as reader:
        for writer in range(processes):
            hits = reader.search.messages(f"writer{writer}", limit=None, with_context=False)
            assert len({hit.id for hit in hits}) == len(hits) == each
            last = reader.search.messages(f"w{writer}t{threads - 1}n{appends - 1}", SearchFilter(), limit=None)
            assert [hit.session_id for hit in last] == [f"own-{writer}"]
        chinese = reader.search.messages("部署完成", limit=None, with_context=False)
        assert len({hit.id for hit in chinese}) == len(chinese) == total
    assert names(path.parent) <= {"state.db", "state.db-wal", "state.db-shm", "state.db.quarantine.lock"}
