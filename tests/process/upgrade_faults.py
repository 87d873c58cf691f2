"""Moments of an upgrade that can be counted, and what happens at one of them: death, or a disk without room.

Statements and steps of SQLite's virtual machine are counted through the driver's own hooks. Writes are counted below
them, where SQLite asks the system: its Unix layer lets anybody replace a system call, which is how it is tested itself.
"""

import ctypes
import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from hermes_store.database import connection as connection_module
from hermes_store.database import database as database_module
from hermes_store.database import load_driver

STEPS_AT_ONCE = 200
"""Instructions of the virtual machine between two calls of the progress handler."""

_PATH_CALLS = ("unlink",)
_DESCRIPTOR_CALLS = ("write", "pwrite", "pwrite64", "ftruncate")
_VFS_FIELDS = (
    "xOpen xDelete xAccess xFullPathname xDlOpen xDlError xDlSym xDlClose xRandomness xSleep xCurrentTime "
    "xGetLastError xCurrentTimeInt64 xSetSystemCall xGetSystemCall xNextSystemCall"
)


class Count:
    """Counts moments of one kind; the one whose number is `fatal` is the last of this process."""

    def __init__(self, fatal: int | None) -> None:
        self.value = 0
        self._fatal = fatal

    def is_fatal(self) -> bool:
        """One more has come; whether it is the one."""
        self.value += 1
        return self.value == self._fatal


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def preparing(prepare: Callable[[Any], None]) -> Callable[..., Any]:
    """What stores open connections with, followed by `prepare`."""

    def connect(*arguments: Any, **options: Any) -> Any:
        opened = connection_module.connect(*arguments, **options)
        prepare(opened)
        return opened

    return connect


def on_every_connection(prepare: Callable[[Any], None]) -> None:
    """Prepare each connection that a store of this process opens from now on."""
    vars(database_module)["connect"] = preparing(prepare)


def watch_statements(fatal: int | None) -> Count:
    """Count statements before they run, also those of triggers and of the search indexes."""
    count = Count(fatal)

    def traced(_: str) -> None:
        if count.is_fatal():
            die()

    on_every_connection(lambda opened: opened.set_trace_callback(traced))
    return count


def watch_steps(fatal: int | None) -> Count:
    """Count `STEPS_AT_ONCE` steps each, in the middle of statements."""
    count = Count(fatal)

    def stepped() -> int:
        if count.is_fatal():
            die()
        return 0

    on_every_connection(lambda opened: opened.set_progress_handler(stepped, STEPS_AT_ONCE))
    return count


def when_committing(announce: Callable[[], None]) -> None:
    """Call `announce` when the first transaction is about to be committed."""
    count = Count(1)

    def traced(text: str) -> None:
        if text.upper().startswith("COMMIT") and count.is_fatal():
            announce()

    on_every_connection(lambda opened: opened.set_trace_callback(traced))


# -- below SQLite -----------------------------------------------------------------------------------------------


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in _VFS_FIELDS.split()),
    )


_GET = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_SET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
# Descriptor or path, then what there is of: bytes or length, number of bytes, offset.
_CALLS: dict[str, Any] = {
    "write": ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, use_errno=True),
    "pwrite": ctypes.CFUNCTYPE(
        ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
    ),
    "ftruncate": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int64, use_errno=True),
    "unlink": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, use_errno=True),
}
_CALLS["pwrite64"] = _CALLS["pwrite"]
_kept: list[Any] = []  # what SQLite calls from now on


def can_watch_writes(driver: str) -> bool:
    """Whether the driver's SQLite lets its system calls be replaced from here."""
    return sys.platform == "linux" and _vfs(driver) is not None


def _vfs(driver: str) -> _Vfs | None:
    module = load_driver(driver).module
    package = module.__name__.partition(".")[0]
    native = sys.modules.get("_sqlite3" if package == "sqlite3" else f"{package}._sqlite3")
    file = getattr(native, "__file__", None)
    if file is None:
        return None  # built into the interpreter
    try:
        find = ctypes.CDLL(file).sqlite3_vfs_find
    except AttributeError:
        return None  # its names are hidden
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
    address = find(b"unix")
    found = _Vfs.from_address(address) if address else None
    return found if found is not None and found.iVersion >= 3 else None


def _replace_calls(driver: str, wrap: Callable[[str, Any], Callable[..., int]]) -> None:
    vfs = _vfs(driver)
    assert vfs is not None
    get, put = _GET(vfs.xGetSystemCall), _SET(vfs.xSetSystemCall)
    for name, kind in _CALLS.items():
        address = get(ctypes.addressof(vfs), name.encode())
        if address:
            mine = kind(wrap(name, kind(address)))
            _kept.append(mine)
            assert put(ctypes.addressof(vfs), name.encode(), ctypes.cast(mine, ctypes.c_void_p)) == 0


def watch_writes(driver: str, fatal: int | None, *, torn: bool = False) -> Count:
    """Count what SQLite asks of the system to change a file: to write, to cut, to remove.

    The process dies before the fatal one, with `torn` when half of its bytes are written.
    """
    count = Count(fatal)

    def wrap(name: str, real: Any) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if count.is_fatal():
                if torn and "write" in name:
                    target, data, size, *offset = arguments
                    real(target, data, size // 2, *offset)
                die()
            return int(real(*arguments))

        return call

    _replace_calls(driver, wrap)
    return count


class Disk:
    """A disk that has no room any more from one write on, until `has_room` is set."""

    def __init__(self, driver: str, last: int) -> None:
        self.has_room = False
        self.left = last
        _replace_calls(driver, self._wrap)

    def _wrap(self, name: str, real: Any) -> Callable[..., int]:
        if "write" not in name:
            return lambda *arguments: int(real(*arguments))

        def call(*arguments: Any) -> int:
            if not self.has_room:
                self.left -= 1
                if self.left < 0:
                    ctypes.set_errno(errno.ENOSPC)
                    return -1
            return int(real(*arguments))

        return call
