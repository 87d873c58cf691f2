"""What the tests of this folder share."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_store import NewUsage, Store
from hermes_store.runtime.usage_queue import THREAD_NAME
from hermes_store.runtime.usage_reports import UsageReport

PATIENCE = 60  # seconds until a test gives up waiting for another thread
ROOT = Path(__file__).parents[2]


def report(session_id: str = "a", *, absolute: bool = False, **usage: Any) -> UsageReport:
    return UsageReport(session_id, NewUsage(**usage), absolute)


def totals(store: Store, session_id: str = "a") -> tuple[Any, ...]:
    with store.reader() as reader:
        row = reader.sessions.get(session_id)
    assert row is not None
    return (row.input_tokens, row.output_tokens, row.api_call_count)


def writers() -> list[threading.Thread]:
    """The living threads of all queues of this process."""
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nobody can start a thread."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


@contextmanager
def unit_elsewhere(store: Store, pool: ThreadPoolExecutor) -> Iterator[None]:
    """Inside, another thread is in a unit of the store."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction():
            inside.set()
            assert leave.wait(PATIENCE)

    held = pool.submit(hold)
    try:
        assert inside.wait(PATIENCE)
        yield
    finally:
        leave.set()
        held.result(PATIENCE)


def run_script(text: str, *arguments: object) -> str:
    """What a Python process prints that runs `text`; the engine comes from the environment."""
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
