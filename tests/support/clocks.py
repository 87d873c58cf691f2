"""A clock that tests move by hand; sleeping moves it too."""

import os


class FakeClock:
    """Time stands still unless somebody sleeps or calls `advance`."""

    def __init__(self, now: float = 1_772_000_000.0) -> None:
        self._now = now
        self.slept: list[float] = []
        self.dead_processes: set[int] = set()

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds

    def jitter(self, low: float, high: float) -> float:
        return (low + high) / 2

    def process_id(self) -> int:
        return os.getpid()

    def process_alive(self, pid: int) -> bool:
        return pid not in self.dead_processes

    def advance(self, seconds: float) -> None:
        self._now += seconds
