"""How long single appends take, one by one: not the median, but what the slowest of them cost.

Three sides take turns in short blocks: the library; the library with its merging left to FTS5, which is what its own
merging has to beat; and the floor, the same work by hand, likewise with the merging of FTS5.
"""

import gc
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks import floors, seed
from benchmarks.cases import Workbench
from benchmarks.runner import ResultDiffers
from hermes_store.fts import keeper

NAME = "append-tail"
WORK = "single appends one by one, and how long the slowest take"

APPENDS = 5_000
WORST = 0.1  # seconds; the target for the slowest append
SPREAD = 5.0  # the target for the 99th percentile, in medians

_BLOCK = 50
_DRAFTS = 400
_SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))


@dataclass(frozen=True)
class Distribution:
    """Seconds per append at some shares of all, and in total."""

    shares: dict[str, float]
    total: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Distribution":
        """That of so many appends."""
        ordered = sorted(seconds)
        last = len(ordered) - 1
        return cls({name: ordered[int(share * last)] for name, share in _SHARES}, sum(ordered))

    @property
    def spread(self) -> float:
        """The 99th percentile in medians."""
        return self.shares["p99"] / self.shares["p50"]


@dataclass(frozen=True)
class Tail:
    """The sides beside each other."""

    appends: int
    library: Distribution
    unmerged: Distribution
    floor: Distribution

    def verdicts(self) -> dict[str, bool]:
        """Each target, and whether it is met."""
        ours = self.library
        return {
            f"p99 at most {SPREAD:.0f} medians": ours.spread <= SPREAD,
            f"slowest at most {WORST * 1e3:.0f} ms": ours.shares["max"] <= WORST,
            "in total not slower than with the merging of FTS5": ours.total <= self.unmerged.total,
        }


def measure_tail(bench: Workbench, appends: int) -> Tail:
    """Make so many appends on each side. Raises ResultDiffers if they did not store the same number."""
    db, other, connection = bench.session_db(), bench.session_db(), bench.writer()
    drafts = [itertools.cycle(seed.drafts(1, _DRAFTS)) for _ in range(3)]
    library: list[float] = []
    unmerged: list[float] = []
    floor: list[float] = []

    def left_to_fts5() -> object:
        with _merging_left_to_fts5():
            return other.append_message(seed.TARGET, **next(drafts[1]))

    sides: list[tuple[list[float], Callable[[], object]]] = [
        (library, lambda: db.append_message(seed.TARGET, **next(drafts[0]))),
        (unmerged, left_to_fts5),
        (floor, lambda: floors.append(connection, seed.TARGET, next(drafts[2]))),
    ]
    gc.collect()
    gc.freeze()
    try:
        while len(library) < appends:
            for seconds, append in sides:
                for _ in range(min(_BLOCK, appends - len(seconds))):
                    began = time.perf_counter()
                    append()
                    seconds.append(time.perf_counter() - began)
            # None is always the one that follows a certain other.
            sides.append(sides.pop(0))
    finally:
        gc.unfreeze()
    stored = len(db.get_messages(seed.TARGET))
    expected = connection.execute("SELECT count(*) FROM messages WHERE session_id = ?", (seed.TARGET,)).fetchone()[0]
    if stored != expected:
        raise ResultDiffers(f"{stored} messages beside {expected}")
    return Tail(appends, Distribution.of(library), Distribution.of(unmerged), Distribution.of(floor))


@contextmanager
def _merging_left_to_fts5() -> Iterator[None]:
    before = keeper.LOOK_AFTER, keeper.HOLD_AFTER
    keeper.LOOK_AFTER = keeper.HOLD_AFTER = sys.maxsize
    try:
        yield
    finally:
        keeper.LOOK_AFTER, keeper.HOLD_AFTER = before


def show_tail(console: Console, tail: Tail) -> None:
    """The distributions as a table, and which targets are met."""
    table = Table(title=f"{NAME}: {tail.appends:,} appends on each side, ms")
    for heading in ("", *(name for name, _ in _SHARES), "p99 / p50", "total s"):
        table.add_column(heading, justify="right", no_wrap=True)
    sides = (("library", tail.library), ("merged by FTS5", tail.unmerged), ("floor", tail.floor))
    for name, side in sides:
        numbers = [f"{side.shares[share] * 1e3:.2f}" for share, _ in _SHARES]
        table.add_row(name, *numbers, f"{side.spread:.1f}", f"{side.total:.2f}")
    console.print(table)
    for target, is_met in tail.verdicts().items():
        console.print(f"{target}: {'met' if is_met else 'missed'}", style="green" if is_met else "red")
