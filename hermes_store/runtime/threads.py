"""Calls from asyncio to a thread that begin at most once, and not at all when they were cancelled before."""

import asyncio
import contextvars
import enum
import logging
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class _State(enum.Enum):
    WAITING = enum.auto()
    RUNNING = enum.auto()
    ENDED = enum.auto()


class _Outcome(asyncio.Future[T]):
    """What a task waits for. To cancel the task is to cancel this, at once and not at the loop's next turn."""

    def __init__(self, call: "_Call[T]", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._call = call

    def cancel(self, msg: Any | None = None) -> bool:
        if self.done():
            return False
        self._call.cancel()
        return super().cancel(msg)


class _Call(Generic[T]):
    """One call of a function in a thread, with the context of whoever asked for it."""

    def __init__(
        self,
        function: Callable[[], T],
        loop: asyncio.AbstractEventLoop,
        *,
        ended: Callable[[], None] | None,
        discard: Callable[[T], object] | None,
        always: bool,
    ) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._loop = loop
        self._ended = ended
        self._discard = discard
        self._always = always
        self._lock = threading.Lock()
        self._state = _State.WAITING
        self._given_up = False
        self._result: list[T] = []  # what nobody has taken yet
        self.outcome: _Outcome[T] = _Outcome(self, loop)

    def cancel(self) -> None:
        """A call that has not begun never will; one that runs comes to its end, and its result is discarded."""
        with self._lock:
            self._given_up = True
            begins_never = self._state is _State.WAITING and not self._always
            if begins_never:
                self._state = _State.ENDED
            left, self._result = self._result, []
        if begins_never:
            self._tell_ended()
        self._discard_all(left)

    def run(self) -> None:
        """The thread's part. Raises nothing: what the function raises is the outcome."""
        with self._lock:
            if self._state is not _State.WAITING:
                return
            self._state = _State.RUNNING
        try:
            result = self._context.run(self._function)
        except BaseException as exc:  # noqa: BLE001 - it is raised where the outcome is awaited
            self._finish([], exc)
        else:
            self._finish([result], None)

    def _finish(self, result: list[T], error: BaseException | None) -> None:
        with self._lock:
            self._state = _State.ENDED
            wanted = not self._given_up
            if wanted:
                self._result = result
        try:
            if wanted:
                self._loop.call_soon_threadsafe(self._deliver, error)
            else:
                self._discard_all(result)
                if error is not None:
                    log.debug("a cancelled call failed", exc_info=error)
        except RuntimeError:
            self.cancel()  # the loop is closed: nobody waits any more
        finally:
            self._tell_ended()

    def _deliver(self, error: BaseException | None) -> None:
        if self.outcome.done():
            return
        if isinstance(error, StopIteration):
            # No future takes one, and whoever waits would wait for ever.
            wrapped = RuntimeError("the function raised StopIteration")
            wrapped.__cause__ = error
            error = wrapped
        if error is not None:
            self.outcome.set_exception(error)
            return
        with self._lock:
            results = self._result
        for result in results:
            self.outcome.set_result(result)

    def taken(self) -> None:
        """The result has reached whoever waited for it."""
        with self._lock:
            self._result = []

    def _tell_ended(self) -> None:
        if self._ended is not None:
            self._ended()

    def _discard_all(self, results: list[T]) -> None:
        if self._discard is not None:
            for result in results:
                self._discard(result)


async def in_thread(
    function: Callable[[], T],
    *,
    ended: Callable[[], None] | None = None,
    discard: Callable[[T], object] | None = None,
    always: bool = False,
) -> T:
    """Run a function in a thread of the loop's pool, as `asyncio.to_thread` does. Rule RUNTIME-8.

    `ended` is called once, when the function has ended or is known never to begin. `discard` gets a result that nobody
    waits for any more. `always`: the function runs even if the waiting was cancelled before it began, and in a thread
    of its own where the pool takes no calls any more. Raises what the function raises.
    """
    loop = asyncio.get_running_loop()
    call = _Call(function, loop, ended=ended, discard=discard, always=always)
    try:
        try:
            loop.run_in_executor(None, call.run)
        except RuntimeError:
            if not always:
                raise
            # The pool is shut down, which must not keep a store open. A call that the pool took all the same runs once.
            threading.Thread(target=call.run, name="hermes-store-call").start()
        result = await call.outcome
    except BaseException:
        # Also where the outcome was there already when the task was cancelled, and where no thread is to be had.
        call.cancel()
        raise
    call.taken()
    return result
