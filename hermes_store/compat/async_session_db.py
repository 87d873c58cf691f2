"""`AsyncSessionDB`: the drop-in interface for asyncio, every call in a thread (rule COMPAT-3)."""

import functools
from collections.abc import Iterator
from typing import Any

from hermes_store.compat.session_db import SessionDB
from hermes_store.runtime.threads import in_thread


class AsyncSessionDB:
    """A `SessionDB` whose methods are awaited; what is no method is what it is.

    A method runs wholly in a thread, with the context variables of the caller. Cancelled before it has begun, it never
    runs; cancelled later, it comes to its end in its thread. A result that would go on reading is read to its end
    there, and is a list.
    """

    def __init__(self, db: SessionDB) -> None:
        self._db = db

    def __getattr__(self, name: str) -> Any:
        if name == "_db":
            raise AttributeError(name)  # made without its constructor, as copying does
        member = getattr(self._db, name)
        if not callable(member):
            return member

        @functools.wraps(member)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await in_thread(functools.partial(_read_out, member, *args, **kwargs))

        return call

    def __repr__(self) -> str:
        return f"<AsyncSessionDB {self._db.db_path}>"


def _read_out(member: Any, /, *args: Any, **kwargs: Any) -> Any:
    result = member(*args, **kwargs)
    return list(result) if isinstance(result, Iterator) else result
