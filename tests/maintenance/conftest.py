"""A file as it was, and a copy of it that was upgraded."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.database import load_driver
from hermes_store.maintenance.check_upgrade import UpgradeCheck, verify_upgrade
from hermes_store.schema.report import OpenReport
from tests.schema.inspecting import change
from tests.snapshots.build import build_version
from tests.snapshots.damaged import DAMAGES
from tests.support.drivers import Engine, engines


@pytest.fixture
def any_engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The last engine there is, for what does not depend on it; child processes inherit the choice."""
    chosen = engines()[-1]
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", chosen.driver)
    monkeypatch.setenv("HERMES_STORE_JOURNAL_MODE", chosen.journal_mode)
    return chosen


@dataclass(frozen=True)
class Pair:
    """Two closed files, and what the upgrade said that it did."""

    before: Path
    after: Path
    report: OpenReport
    driver: str

    def spoil(self, *statements: str) -> None:
        """Make the upgrade a wrong one, after the fact; foreign keys are off."""
        change(self.after, self.driver, *statements)

    def verify(self) -> UpgradeCheck:
        return verify_upgrade(self.before, self.after, self.report)


Upgraded = Callable[..., Pair]


@pytest.fixture
def upgraded(any_engine: Engine, tmp_path: Path) -> Upgraded:
    """`upgraded(15)` or `upgraded("duplicate_titles")`: a file of that age, or with that damage, and its upgrade."""
    driver: Any = load_driver(any_engine.driver).module

    def make(kind: int | str, *statements: str) -> Pair:
        before, after = tmp_path / "before" / "old.db", tmp_path / "after" / "old.db"
        for path in (before, after):
            path.parent.mkdir()
        if isinstance(kind, int):
            variant = "late" if kind in (7, 11, 14, 16, 17, 19, 20, 21, 22, 23) else None
            build_version(before, driver, kind, variant=variant, sessions=5, turns=2)
        else:
            DAMAGES[kind].make(driver, before)
        change(before, any_engine.driver, *statements)
        for place in before.parent.rglob("*"):
            target = after.parent / place.relative_to(before.parent)
            if place.is_dir():
                target.mkdir()
            else:
                shutil.copyfile(place, target)
        with Store.open(after) as store:
            report = store.report
        return Pair(before, after, report, any_engine.driver)

    return make
