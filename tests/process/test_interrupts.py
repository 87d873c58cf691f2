"""An interrupt at any moment rolls its unit back and leaves the handle usable (WRITE-1)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store import Store
from tests.support.drivers import Engine

CHILD = """
import random, signal, sys
from hermes_store import Store

class Tick(BaseException):
    pass

armed = False

def tick(*_):
    if armed:
        raise Tick

signal.signal(signal.SIGALRM, tick)
random.seed(7)
store = Store.open(sys.argv[1])
store.write(lambda unit: unit.create_session("a", "cli"))

def in_a_transaction():
    with store.transaction() as unit:
        unit.append("a", "user", "t")

def in_a_reader():
    with store.reader() as reader:
        reader.messages.count("a")

calls = [
    lambda: store.append("a", "user", {"content": "a"}),
    lambda: store.write(lambda unit: unit.append("a", "user", "w")),
    in_a_transaction,
    in_a_reader,
]
interrupted = 0
while interrupted < int(sys.argv[2]):
    signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0012 + 1e-6)
    armed = True
    try:
        random.choice(calls)()
        armed = False
    except Tick:
        armed = False
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    store.append("a", "user", {"content": "after"})
    in_a_reader()
store.close()
"""


def _interrupt(path: Path, times: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(times)], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    with Store.open(path) as store, store.reader() as reader:
        assert reader.sessions.get("a").message_count == reader.messages.count("a") >= times


@pytest.mark.skipif(not hasattr(os, "fork"), reason="interval timers are POSIX")
def test_a_handle_survives_interrupts(engine: Engine, path: Path) -> None:
    _interrupt(path, 150)


@pytest.mark.heavy
@pytest.mark.skipif(not hasattr(os, "fork"), reason="interval timers are POSIX")
def test_a_handle_survives_many_interrupts(engine: Engine, path: Path) -> None:
    _interrupt(path, 5000)
