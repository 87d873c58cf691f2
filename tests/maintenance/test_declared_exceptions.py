"""What an upgrade changes on purpose is declared, counted and explained (rule TEST-3)."""

import re
from pathlib import Path

import pytest

from hermes_store.database import load_driver
from hermes_store.maintenance.check_upgrade import check_upgrade
from hermes_store.maintenance.upgrade_exceptions import DECLARED
from hermes_store.maintenance.upgrade_tables import LEFTOVERS
from tests.maintenance.conftest import Upgraded
from tests.snapshots.build import VARIANTS, build_version
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.newer import FORMS, STAMPS, build_newer
from tests.support.drivers import Engine

USED = {
    "model_config": {"delegate marked"},
    "gateway_json": {"gateway columns filled"},
    "duplicate_titles_v23": {"title cleared"},
    "usage_backfill": {"usage backfilled", "counter recounted"},
    "null_active_v23_late": {"active repaired"},
    "failed_usage_rebuild_v20": {"NULL replaced"},
    "routing_without_key": {"NULL replaced", "newest entry kept"},
    "interrupted_usage_rebuild_v21_used": {"usage added up"},
    "interrupted_routing_rebuild_used": {"newest entry kept"},
}


@pytest.mark.parametrize("damage", USED)
def test_the_exception_is_used_and_explained(upgraded: Upgraded, damage: str) -> None:
    check = upgraded(damage).verify()
    assert check.problems == ()
    used = {each.name: each for each in check.exceptions}
    assert USED[damage] <= used.keys()
    assert used.keys() <= {each.name for each in DECLARED}
    assert all(each.count > 0 and each.reason for each in used.values())


@pytest.mark.parametrize(
    "damage",
    ["interrupted_routing_rebuild", "interrupted_usage_rebuild_v21_renamed", "interrupted_topic_rebuild_copied"],
)
def test_rows_of_an_interrupted_rebuild_are_looked_for_where_they_went(upgraded: Upgraded, damage: str) -> None:
    check = upgraded(damage).verify()
    assert check.problems == ()
    assert any("which an interrupted rebuild left, were taken over" in note for note in check.notes)


def test_orphans_of_before_are_no_problem_and_are_told(upgraded: Upgraded) -> None:
    check = upgraded("orphan_usage_v21").verify()
    assert check.problems == ()
    assert any("named a missing row of sessions before" in note for note in check.notes)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_newer_release_added_is_kept_and_listed(any_engine: Engine, tmp_path: Path, form: str) -> None:
    path = tmp_path / "newer.db"
    build_newer(path, load_driver(any_engine.driver).module, STAMPS[-1], form=form)
    check = check_upgrade(path)
    assert check.problems == ()
    assert check.stamp == STAMPS[-1]
    (kept,) = (note for note in check.notes if note.startswith("kept"))
    assert "system_prompts" in kept
    assert "messages_display_order_insert" in kept


def test_every_exception_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "checking-upgrades.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| [^|]*\|$", text, flags=re.MULTILINE)
    assert {each.name for each in DECLARED} == set(rows) - {"exception"}
    assert all(f"`{name}`" in text for name in LEFTOVERS)


OUT_OF_SHAPE = {"without_rowid_sessions", "without_rowid_sessions_duplicate_titles"}
"""Tables that were made WITHOUT ROWID stay so, which is not the golden schema."""


@pytest.mark.heavy
@pytest.mark.parametrize("damage", sorted(DAMAGES.keys() - OUT_OF_SHAPE))
def test_every_damaged_file_passes(upgraded: Upgraded, damage: str) -> None:
    assert upgraded(damage).verify().problems == ()


@pytest.mark.heavy
@pytest.mark.parametrize(("version", "variant"), VARIANTS)
def test_every_version_passes(any_engine: Engine, tmp_path: Path, version: int, variant: str | None) -> None:
    path = tmp_path / "old.db"
    build_version(path, load_driver(any_engine.driver).module, version, variant=variant)
    check = check_upgrade(path)
    assert check.problems == ()
    assert check.stamp == version


@pytest.mark.parametrize("damage", sorted(OUT_OF_SHAPE))
def test_a_file_that_cannot_get_the_golden_schema_does_not_pass(upgraded: Upgraded, damage: str) -> None:
    problems = upgraded(damage).verify().problems
    assert problems
    assert all(problem.startswith("schema: ") for problem in problems)
