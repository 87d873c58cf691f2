"""Saving a log that has lost its name, before its last descriptor is closed (rule DAMAGE-2)."""

import hashlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from hermes_store.clock import Clock
from hermes_store.database.condition import Identity, identity_of
from hermes_store.errors import RetiredGenerationCaptureError

log = logging.getLogger(__name__)

LARGEST_COPY = 512 * 1024 * 1024
"""Bytes of a main file that is copied whole; of a larger one only the header is."""

_HEADER = 100
_BLOCK = 1024 * 1024
_DESCRIPTORS = ("/proc/self/fd", "/dev/fd")


def save_retired_log(path: Path, wal: Identity | None, shm: Identity | None, clock: Clock) -> Path | None:
    """Copy a deleted log into a folder beside the store; returns the folder, None where descriptors cannot be listed.

    The log is read through the descriptors that SQLite itself holds: opening and closing another one would drop the
    locks. Raises RetiredGenerationCaptureError.
    """
    numbers = _descriptors()
    if numbers is None or wal is None or wal not in numbers:
        return None
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(clock.now()))
    folder = path.with_name(f"{path.name}.retired-wal-{moment}-{clock.process_id()}")
    staged = folder.with_name(folder.name + ".partial")
    main = identity_of(path)
    parts: list[tuple[str, Identity | None, int | None]] = [
        (f"{path.name}-wal", wal, None),
        (f"{path.name}-shm", shm, None),
    ]
    size = path.stat().st_size if main is not None else 0
    if size > LARGEST_COPY:
        parts.append((f"{path.name}.header", main, _HEADER))
    else:
        parts.append((path.name, main, None))
    try:
        staged.mkdir(mode=0o700)
        files = {
            name: _copy(numbers[identity], staged / name, limit)
            for name, identity, limit in parts
            if identity is not None and identity in numbers
        }
        _write_manifest(staged / "manifest.json", path, files, clock)
        staged.rename(folder)
    except OSError as exc:
        raise RetiredGenerationCaptureError(f"{folder} could not be written: {exc.strerror}") from exc
    log.error("the log of %s had been deleted; a copy is in %s", path, folder)
    return folder


def _descriptors() -> dict[Identity, int] | None:
    """The descriptors of this process by what they have open."""
    folder = next((each for each in _DESCRIPTORS if os.path.isdir(each)), None)  # noqa: PTH112
    if folder is None:
        return None
    numbers = os.listdir(folder)  # noqa: PTH208 - names alone
    found: dict[Identity, int] = {}
    for number in numbers:
        try:
            status = os.fstat(int(number))
        except OSError:
            continue
        found[status.st_dev, status.st_ino] = int(number)
    return found


def _copy(descriptor: int, target: Path, limit: int | None) -> dict[str, Any]:
    """Copy what a descriptor has open without moving its position; size in bytes, digest, identity."""
    digest = hashlib.sha256()
    offset = 0
    with target.open("xb") as stream:
        target.chmod(0o600)
        while limit is None or offset < limit:
            block = os.pread(descriptor, _BLOCK if limit is None else limit - offset, offset)
            if not block:
                break
            stream.write(block)
            digest.update(block)
            offset += len(block)
        stream.flush()
        os.fsync(stream.fileno())
    status = os.fstat(descriptor)
    return {"size": offset, "sha256": digest.hexdigest(), "device": status.st_dev, "inode": status.st_ino}


def _write_manifest(target: Path, path: Path, files: dict[str, dict[str, Any]], clock: Clock) -> None:
    manifest = {
        "version": 1,
        "database": str(path),
        "trigger": "deleted log",
        "pid": clock.process_id(),
        "time": clock.now(),
        "files": files,
    }
    with target.open("x", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
