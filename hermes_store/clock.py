"""Time, sleep, random numbers and process liveness behind one injectable object."""

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """What the library needs of its surroundings; tests hand in their own."""

    def now(self) -> float:
        """Wall clock, Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Pause this thread."""
        ...

    def jitter(self, low: float, high: float) -> float:
        """A random number of seconds between `low` and `high`."""
        ...

    def process_id(self) -> int:
        """The id of this process."""
        ...

    def process_alive(self, pid: int) -> bool:
        """False only when no process with this id exists; any doubt counts as alive."""
        ...


class SystemClock:
    """The real surroundings."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    jitter = staticmethod(random.uniform)
    process_id = staticmethod(os.getpid)

    @staticmethod
    def process_alive(pid: int) -> bool:
        """False only when the system says that no such process exists (POSIX; elsewhere always True)."""
        if pid <= 0 or os.name != "posix":
            return True
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            return True
        return True


SYSTEM_CLOCK: Clock = SystemClock()
