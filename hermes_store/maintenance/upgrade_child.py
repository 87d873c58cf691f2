"""Upgrades one file in a process of its own, because the peak of memory is one number for the whole life of a process.

Prints one JSON object: `report` with `seconds` and `peak`, or `error`.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from hermes_store.errors import HermesStoreError

# The very package of the parent, whatever stands in the current folder or is installed under its name; what the parent
# found in other places is looked for there last, so that nothing there hides a module.
_BEGIN = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
package, path, *places = sys.argv[1:]
spec = spec_from_file_location("hermes_store", package + "/__init__.py", submodule_search_locations=[package])
sys.modules["hermes_store"] = module = module_from_spec(spec)
sys.path.extend(each for each in places if each not in sys.path)
spec.loader.exec_module(module)
from hermes_store.maintenance.upgrade_child import main
sys.exit(main(path))
"""


def command(path: Path) -> list[str]:
    """The arguments of the interpreter for upgrading a file: nothing is imported from the current folder."""
    here = Path.cwd()
    places = [place for place in sys.path if place and Path(place).absolute() != here]
    return ["-P", "-c", _BEGIN, str(Path(__file__).parents[1]), str(path), *places]


def environment(home: Path) -> dict[str, str]:
    """The environment for it: another home, and nothing that makes the interpreter wait for somebody."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONINSPECT"}
    return {**kept, "HERMES_HOME": str(home), "PYTHONUTF8": "1"}


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
