"""Checking that an old store survives an upgrade, on a copy (rule TEST-1)."""

import os
from pathlib import Path

from hermes_store.maintenance.check_upgrade import UpgradeCheck, UsedException
from hermes_store.maintenance.check_upgrade import check_upgrade as _check

__all__ = ["UpgradeCheck", "UsedException", "check_upgrade"]


def check_upgrade(snapshot: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> UpgradeCheck:
    """Upgrade a copy of a closed store and verify it; the snapshot is only read.

    `folder`: an empty folder for the copies, by default a temporary one. Whatever goes wrong with the file is a problem
    of the result: `assert not check_upgrade(path).problems`.
    """
    return _check(Path(snapshot), None if folder is None else Path(folder))
