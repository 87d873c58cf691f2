"""Timing a library call beside its floor: alternating samples, ratios per round, medians with spread."""

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

NOISE = 0.25  # of the median


class Sample(NamedTuple):
    """Seconds that some calls took: on the wall, and of this process's processor time."""

    wall: float
    cpu: float


Side = Callable[[int], Sample]
"""Makes so many calls and says how long they took."""


@dataclass(frozen=True)
class Pair:
    """A case that is ready to run. `check` raises ResultDiffers.

    A sample is so many blocks of so many calls; the sides take turns from block to block, so that whatever else the
    machine does meets both. `calls`: None to find out.
    """

    library: Side
    floor: Side
    check: Callable[[], None]
    calls: int | None = None
    blocks: int = 10


class ResultDiffers(AssertionError):
    """The library and its floor do not give the same: their times cannot be compared."""


@dataclass(frozen=True)
class Spread:
    """A median and what lies around it."""

    median: float
    low: float
    quartile_1: float
    quartile_3: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        if len(values) == 1:
            return cls(*values * 5)
        first, median, third = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, min(values), first, third, max(values))


@dataclass(frozen=True)
class Result:
    """What came out for one case. Times are seconds per call."""

    name: str
    work: str
    target: float | None
    binding: bool
    rounds: int
    calls: int
    ratio: Spread
    cpu_ratio: Spread
    library: Spread
    floor: Spread

    @property
    def verdict(self) -> str:
        """Whether the target is met; "(later)" beside a target that does not bind yet."""
        if self.target is None:
            return ""
        met = "met" if self.ratio.median <= self.target else "missed"
        return met if self.binding else f"{met} (later)"

    @property
    def is_noisy(self) -> bool:
        """The rounds disagree so much that the machine was busy with something else: look at the processor times."""
        return self.ratio.quartile_3 - self.ratio.quartile_1 > NOISE * self.ratio.median


def timed(call: Callable[[], object]) -> Side:
    """A side that calls a function again and again."""

    def run(calls: int) -> Sample:
        repetitions = range(calls)
        cpu = time.process_time()
        wall = time.perf_counter()
        for _ in repetitions:
            call()
        return Sample(time.perf_counter() - wall, time.process_time() - cpu)

    return run


def same(library: Callable[[], object], floor: Callable[[], object]) -> Callable[[], None]:
    """A check that two functions return the same, of the same types."""
    return lambda: compare(library(), floor())


def compare(library: Any, floor: Any) -> None:
    """Raise ResultDiffers, with the first place that is not the same."""
    where = _difference(library, floor, "result")
    if where is not None:
        raise ResultDiffers(where)


def _difference(left: Any, right: Any, where: str) -> str | None:
    if type(left) is not type(right):
        return f"{where}: {_short(left)} is not of the type of {_short(right)}"
    if isinstance(left, list) and len(left) == len(right):
        pairs = ((each, right[number], f"{where}[{number}]") for number, each in enumerate(left))
    elif isinstance(left, dict) and list(left) == list(right):
        pairs = ((value, right[key], f"{where}[{key!r}]") for key, value in left.items())
    else:
        return None if left == right else f"{where}: {_short(left)} beside {_short(right)}"
    return next((found for pair in pairs if (found := _difference(*pair)) is not None), None)


def _short(value: Any) -> str:
    text = f"{len(value)} keys {list(value)}" if isinstance(value, dict) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def measure(pair: Pair, *, rounds: int, seconds: float) -> tuple[list[Sample], list[Sample], int]:
    """Samples of both sides, and the calls in each.

    `seconds`: how long a sample should be. Garbage of the samples is collected as usual, but what was there before them
    is set aside, so that neither side pays for it.
    """
    pair.check()
    calls = pair.calls if pair.calls is not None else _calls_for(pair, seconds / pair.blocks)
    library: list[Sample] = []
    floor: list[Sample] = []
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            ours, theirs = _round(pair, calls)
            library.append(ours)
            floor.append(theirs)
    finally:
        gc.unfreeze()
    # The writing sides have made the same number of calls.
    pair.check()
    return library, floor, calls * pair.blocks


def _round(pair: Pair, calls: int) -> tuple[Sample, Sample]:
    totals = {pair.library: Sample(0.0, 0.0), pair.floor: Sample(0.0, 0.0)}
    sides = [pair.library, pair.floor]
    for _ in range(pair.blocks):
        for side in sides:
            gc.collect()
            sample, total = side(calls), totals[side]
            totals[side] = Sample(total.wall + sample.wall, total.cpu + sample.cpu)
        # The one that was last goes first: none is always the one that follows the other.
        sides.reverse()
    return totals[pair.library], totals[pair.floor]


def _calls_for(pair: Pair, seconds: float) -> int:
    """As many calls as make the slower side's sample long enough; both sides warm up alike."""
    calls = 1
    while True:
        took = max(pair.library(calls).wall, pair.floor(calls).wall)
        if took >= seconds / 4 or calls >= 100_000:
            return max(1, math.ceil(calls * seconds / max(took, 1e-9)))
        calls *= 4


def summarise(
    name: str, work: str, target: float | None, *, binding: bool, measured: tuple[list[Sample], list[Sample], int]
) -> Result:
    """Statistics over the rounds; a ratio is that of the two samples of one round."""
    library, floor, calls = measured
    return Result(
        name=name,
        work=work,
        target=target,
        binding=binding,
        rounds=len(library),
        calls=calls,
        ratio=Spread.of([ours.wall / theirs.wall for ours, theirs in zip(library, floor, strict=True)]),
        cpu_ratio=Spread.of([ours.cpu / theirs.cpu for ours, theirs in zip(library, floor, strict=True)]),
        library=Spread.of([each.wall / calls for each in library]),
        floor=Spread.of([each.wall / calls for each in floor]),
    )


# -- output -------------------------------------------------------------------------------------------------


def as_json(results: list[Result], environment: dict[str, Any], differing: dict[str, str]) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        "environment": environment,
        "cases": [{**asdict(result), "verdict": result.verdict, "noisy": result.is_noisy} for result in results],
        "differing": differing,
    }


def show(console: Console, results: list[Result], environment: dict[str, Any]) -> None:
    """The results as a table."""
    caption = (
        "ratio: library / floor, median of the rounds; cpu: the same of processor time; times are medians per call"
    )
    table = Table(title="  ".join(f"{key} {value}" for key, value in environment.items()), caption=caption)
    table.add_column("case", no_wrap=True)
    for heading in ("ratio", "quartiles", "min to max", "target", "cpu", "library", "floor", "rounds x calls"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    colours = {"met": "green", "missed": "red"}
    for result in results:
        ratio = result.ratio
        table.add_row(
            result.name,
            f"{ratio.median:.2f}",
            f"{ratio.quartile_1:.2f}..{ratio.quartile_3:.2f}",
            f"{ratio.low:.2f}..{ratio.high:.2f}",
            "" if result.target is None else f"{result.target:.1f}",
            f"{result.cpu_ratio.median:.2f}",
            _duration(result.library.median),
            _duration(result.floor.median),
            f"{result.rounds} x {result.calls}",
            f"{result.verdict} noisy".strip() if result.is_noisy else result.verdict,
            style=colours.get(result.verdict),
        )
    console.print(table)


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
