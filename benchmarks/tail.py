"""How long single appends take, one by one: not the median, but what the slowest of them cost.

The floor is the same work by hand, with the merging that FTS5 does by itself. Both sides take turns in short blocks.
"""

import gc
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks import floors, seed
from benchmarks.cases import Workbench
from benchmarks.runner import ResultDiffers

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
    """Both sides beside each other."""

    appends: int
    library: Distribution
    floor: Distribution

    def verdicts(self) -> dict[str, bool]:
        """Each target, and whether it is met."""
        ours = self.library
        return {
            f"p99 at most {SPREAD:.0f} medians": ours.spread <= SPREAD,
            f"slowest at most {WORST * 1e3:.0f} ms": ours.shares["max"] <= WORST,
            "in total not slower than the floor": ours.total <= self.floor.total,
        }


def measure_tail(bench: Workbench, appends: int) -> Tail:
    """Make so many appends on each side. Raises ResultDiffers if they did not store the same number."""
    db, connection = bench.session_db(), bench.writer()
    ours, theirs = itertools.cycle(seed.drafts(1, _DRAFTS)), itertools.cycle(seed.drafts(1, _DRAFTS))
    library: list[float] = []
    floor: list[float] = []
    sides: list[tuple[list[float], Callable[[], object]]] = [
        (library, lambda: db.append_message(seed.TARGET, **next(ours))),
        (floor, lambda: floors.append(connection, seed.TARGET, next(theirs))),
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
            sides.reverse()
    finally:
        gc.unfreeze()
    stored = len(db.get_messages(seed.TARGET))
    expected = connection.execute("SELECT count(*) FROM messages WHERE session_id = ?", (seed.TARGET,)).fetchone()[0]
    if stored != expected:
        raise ResultDiffers(f"{stored} messages beside {expected}")
    return Tail(appends, Distribution.of(library), Distribution.of(floor))


def show_tail(console: Console, tail: Tail) -> None:
    """The distributions as a table, and which targets are met."""
    table = Table(title=f"{NAME}: {tail.appends:,} appends on each side, ms")
    for heading in ("", *(name for name, _ in _SHARES), "p99 / p50", "total s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, side in (("library", tail.library), ("floor", tail.floor)):
        numbers = [f"{side.shares[share] * 1e3:.2f}" for share, _ in _SHARES]
        table.add_row(name, *numbers, f"{side.spread:.1f}", f"{side.total:.2f}")
    console.print(table)
    for target, is_met in tail.verdicts().items():
        console.print(f"{target}: {'met' if is_met else 'missed'}", style="green" if is_met else "red")
