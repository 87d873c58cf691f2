"""Where the files of a profile are: the home folder and its default store (rules HOME-*)."""

import os
import sys
from contextvars import ContextVar, Token
from pathlib import Path

STORE_FILE_NAME = "state.db"

_override: ContextVar[str | None] = ContextVar("hermes_home_override", default=None)


def set_hermes_home_override(path: str | os.PathLike[str] | None) -> Token[str | None]:
    """Make `path` the home of this context; None clears. Returns the token for `reset_hermes_home_override`.

    A context variable: tasks and `asyncio.to_thread` see it, a plain new thread does not. Rule HOME-1.
    """
    return _override.set(None if path is None else str(path))


def reset_hermes_home_override(token: Token[str | None]) -> None:
    """Put back what was set before."""
    _override.reset(token)


def get_hermes_home_override() -> str | None:
    """The override of this context, or None; an empty text counts as none."""
    return _override.get() or None


def get_hermes_home() -> Path:
    """The home in force: context override, then HERMES_HOME, then the platform's default. Rule HOME-1."""
    override = get_hermes_home_override()
    return Path(override) if override is not None else get_process_hermes_home()


def get_process_hermes_home() -> Path:
    """The home of this process, whatever the context says: HERMES_HOME, then the platform's default."""
    configured = os.environ.get("HERMES_HOME", "").strip()
    return Path(configured) if configured else platform_default_home()


def platform_default_home() -> Path:
    r"""`~/.hermes`, on Windows `%LOCALAPPDATA%\hermes`; HERMES_DATA_DIR_SUFFIX is appended to the name."""
    suffix = os.environ.get("HERMES_DATA_DIR_SUFFIX", "")
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "").strip()
        base = Path(local) if local else Path.home() / "AppData" / "Local"
        return base / f"hermes{suffix}"
    return Path.home() / f".hermes{suffix}"


def default_store_path() -> Path:
    """The store of the home in force, resolved at every call. Rule HOME-2."""
    return get_hermes_home() / STORE_FILE_NAME


def is_default_store(path: Path) -> bool:
    """True if `path` names the store of the home in force, by whatever spelling."""
    return canonical(path) == canonical(default_store_path())


def canonical(path: str | os.PathLike[str]) -> str:
    """One spelling for one file: absolute, links followed. Keys of handles and caches are these."""
    return os.path.realpath(path)
