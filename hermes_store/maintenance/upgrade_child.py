"""Upgrades one file in a process of its own: `python -m hermes_store.maintenance.upgrade_child PATH`.

Prints one JSON object: `report` with `seconds` and `peak`, or `error`. A process of its own, because the peak of
memory is one number for the whole life of a process.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from hermes_store.errors import HermesStoreError


def main(path: str) -> int:
    """Open the file for writing, once; returns the exit code."""
    # Alembic is needed for every old file: what importing takes is not what the upgrade takes.
    importlib.import_module("hermes_store.schema.environment")
    from hermes_store.store import Store

    imported = peak_memory()
    began = time.perf_counter()
    result: dict[str, Any]
    try:
        with Store.open(path, create=False) as store:
            result = {"report": store.report.as_dict()}
    except HermesStoreError as exc:
        result = {"error": f"{type(exc).__name__}: {exc}"}
    result["seconds"] = time.perf_counter() - began
    now = peak_memory()
    result["peak"] = now - imported if now is not None and imported is not None else None
    sys.stdout.write(json.dumps(result))
    return 0


def peak_memory() -> int | None:
    """The most memory that this process has held, in bytes; None where the platform does not say.

    On Linux the number of the kernel's own report: that of `getrusage` survives exec, so it may be the parent's.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _peak_of_getrusage()
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return _peak_of_getrusage()


def _peak_of_getrusage() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
