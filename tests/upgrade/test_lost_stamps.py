"""The stamp that was lost, doubled or is odd, and the table of the revision that is missing, empty or behind."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.snapshots.build import VARIANTS, build_version
from tests.snapshots.facts import add, session
from tests.snapshots.writing import alter
from tests.upgrade.files import check_quiet, check_sound, kept, marks, module_of, upgrade, use, values
from tests.upgrade.tables import USAGE

TOLD = {
    (1, None): 1, (2, None): 2, (4, None): 4, (5, None): 5, (6, None): 6, (7, "early"): 7, (7, "late"): 7,
    (8, None): 8, (9, None): 9, (10, None): 10, (11, "early"): 10, (11, "late"): 10, (12, None): 12, (13, None): 13,
    (14, "early"): 14, (14, "late"): 14, (15, None): 14, (16, "early"): 14, (16, "late"): 16, (17, "early"): 17,
    (17, "late"): 17, (18, None): 18, (19, "early"): 19, (19, "late"): 19, (20, "early"): 20, (20, "late"): 20,
    (21, "early"): 21, (21, "late"): 21, (22, "early"): 22, (22, "late"): 22, (23, "early"): 22, (23, "late"): 23,
}  # fmt: skip
"""What the shape of each version tells: the oldest version that a file of it may have."""

LOSSES = {"row": "DELETE FROM schema_version", "table": "DROP TABLE schema_version"}
STAMPS = "SELECT version FROM schema_version"
REVISIONS = "SELECT version_num FROM alembic_version"


def test_every_shape_is_told() -> None:
    assert set(TOLD) == set(VARIANTS)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("version", "variant"), VARIANTS)
def test_the_shape_tells_what_a_lost_stamp_said(
    path: Path, one_driver: str, version: int, variant: str | None, loss: str
) -> None:
    story = build_version(path, module_of(one_driver), version, variant=variant, sessions=2, turns=1)
    alter(path, module_of(one_driver), LOSSES[loss])
    filled = {"session_model_usage.billing_base_url": ""}
    # What a file may have done already is done again, and then marks what it finds.
    with kept(path, one_driver, but=["sessions.model_config"] if version <= 16 else [], filled=filled):
        report = upgrade(path)
    assert report.stamp == TOLD[version, variant]
    assert report.adopted
    assert values(path, one_driver, STAMPS) == [(23,)]
    assert values(path, one_driver, REVISIONS) == [("0023",)]
    check_sound(path, one_driver, story.session_ids[0])
    check_quiet(path, one_driver)
    # Versions that could not have rows in the table get them, those that had are not counted again.
    spent = values(path, one_driver, f"SELECT count(*) FROM {USAGE}")
    assert spent == [(story.usage_rows if version >= 20 else 2,)]


@pytest.mark.parametrize("version", [20, 21, 22, 23])
def test_usage_that_is_counted_by_rows_is_not_counted_from_sessions(path: Path, one_driver: str, version: int) -> None:
    build_version(path, module_of(one_driver), version, variant="late", sessions=1, turns=1)
    add(path, module_of(one_driver), {"sessions": [session("s", input_tokens=5, model="m")]})
    alter(path, module_of(one_driver), LOSSES["row"])
    upgrade(path)
    assert values(path, one_driver, f"SELECT * FROM {USAGE} WHERE session_id = 's'") == []
    with SessionDB(path) as db:
        assert db.fts_optimize_available() == (version < 23)
    check_quiet(path, one_driver)
    assert "fts_optimize_available" not in marks(path, one_driver)


def test_a_file_of_today_that_lost_its_stamp_is_not_migrated(path: Path, driver: str) -> None:
    build_version(path, module_of(driver), 23, variant="late", sessions=1, turns=1)
    add(path, module_of(driver), {"sessions": [session("s", parent_session_id="t"), session("t", input_tokens=5)]})
    alter(path, module_of(driver), LOSSES["table"])
    with kept(path, driver):
        report = upgrade(path)
    assert (report.stamp, report.revisions_run) == (23, ())


@pytest.mark.parametrize("version", [1, 10, 22, 23])
def test_an_adopted_file_that_loses_its_stamp_gets_it_back(path: Path, driver: str, version: int) -> None:
    build_version(path, module_of(driver), version, sessions=2, turns=1)
    upgrade(path)
    alter(path, module_of(driver), LOSSES["table"])
    with kept(path, driver):
        report = upgrade(path)
    assert (report.adopted, report.revisions_run) == (False, ())
    assert values(path, driver, STAMPS) == [(23,)]
    check_quiet(path, driver)


@pytest.mark.parametrize(("stamps", "told"), [((22, 5), 22), ((5, 22), 5), ((99, 5), 99), ((5, 99), 5), ((22, 22), 22)])
def test_of_two_stamps_the_first_counts_and_none_is_lowered(
    path: Path, one_driver: str, stamps: tuple[int, int], told: int
) -> None:
    build_version(path, module_of(one_driver), 22, sessions=2, turns=1)
    inserts = [f"INSERT INTO schema_version VALUES ({each})" for each in stamps]
    alter(path, module_of(one_driver), LOSSES["row"], *inserts)
    assert upgrade(path).stamp == told
    assert values(path, one_driver, STAMPS) == [(max(23, each),) for each in stamps]
    check_quiet(path, one_driver)


@pytest.mark.parametrize("second", ["'abc'", "22.5", "x'17'", "NULL"])
def test_a_second_stamp_that_is_odd_is_no_obstacle(path: Path, one_driver: str, second: str) -> None:
    build_version(path, module_of(one_driver), 22, sessions=2, turns=1)
    alter(path, module_of(one_driver), "DROP TABLE schema_version", "CREATE TABLE schema_version (version)")
    alter(path, module_of(one_driver), f"INSERT INTO schema_version VALUES (22), ({second})")
    assert upgrade(path).stamp == 22
    assert values(path, one_driver, f"{STAMPS} LIMIT 1") == [(23,)]
    check_quiet(path, one_driver)


def test_a_stamp_that_is_null_is_a_lost_one(path: Path, one_driver: str) -> None:
    build_version(path, module_of(one_driver), 21, variant="late", sessions=2, turns=1)
    alter(path, module_of(one_driver), "DROP TABLE schema_version", "CREATE TABLE schema_version (version INTEGER)")
    alter(path, module_of(one_driver), "INSERT INTO schema_version VALUES (NULL)")
    assert upgrade(path).stamp == 21
    assert values(path, one_driver, STAMPS) == [(23,)]
    check_quiet(path, one_driver)


# -- the revision -----------------------------------------------------------------------------------------------

WITHOUT_REVISION = {"missing": ("DROP TABLE alembic_version",), "empty": ("DELETE FROM alembic_version",)}


@pytest.mark.parametrize("loss", WITHOUT_REVISION)
@pytest.mark.parametrize("version", [1, 15, 22, 23])
def test_a_file_that_lost_its_revision_is_adopted_again(path: Path, driver: str, version: int, loss: str) -> None:
    """The repair of Hermes Agent copies `state_meta`, with all notes, and leaves the table of the revision out."""
    story = build_version(path, module_of(driver), version, sessions=2, turns=1)
    upgrade(path)
    before = marks(path, driver)
    alter(path, module_of(driver), *WITHOUT_REVISION[loss])
    with kept(path, driver):
        report = upgrade(path)
    assert (report.adopted, report.stamp, report.revisions_run) == (True, 23, ())
    assert values(path, driver, REVISIONS) == [("0023",)]
    assert marks(path, driver) == before
    check_sound(path, driver, story.session_ids[0])
    check_quiet(path, driver)


@pytest.mark.parametrize("revision", ["0001", "0016", "0018", "0020", "0021", "0022"])
def test_a_file_that_is_behind_gets_the_revisions_that_it_lacks(path: Path, one_driver: str, revision: str) -> None:
    build_version(path, module_of(one_driver), 22, variant="late", sessions=2, turns=1)
    upgrade(path)
    alter(path, module_of(one_driver), f"UPDATE alembic_version SET version_num = '{revision}'")
    chain = ["0001", "0016", "0018", "0020", "0021", "0022", "0023"]
    with kept(path, one_driver, but=["sessions.model_config"]):
        report = upgrade(path)
    assert (report.adopted, list(report.revisions_run)) == (False, chain[chain.index(revision) + 1 :])
    check_quiet(path, one_driver)


def test_a_table_of_the_revision_that_another_tool_made_is_used(path: Path, one_driver: str) -> None:
    build_version(path, module_of(one_driver), 23, variant="late", sessions=2, turns=1)
    alter(path, module_of(one_driver), "CREATE TABLE alembic_version (version_num TEXT)")
    alter(path, module_of(one_driver), "INSERT INTO alembic_version VALUES ('0020')")
    assert upgrade(path).revisions_run == ("0021", "0022", "0023")
    assert values(path, one_driver, REVISIONS) == [("0023",)]
    check_quiet(path, one_driver)


@pytest.mark.parametrize("number", [0, 1, 15, 16, 17, 18, 19, 20, 21])
def test_a_stamp_below_the_shape_does_its_steps_on_what_is_there(path: Path, one_driver: str, number: int) -> None:
    story = build_version(path, module_of(one_driver), 22, variant="late", sessions=2, turns=1)
    add(path, module_of(one_driver), {"sessions": [session("s", input_tokens=5, model="m")]})
    alter(path, module_of(one_driver), f"UPDATE schema_version SET version = {number}")
    with kept(path, one_driver, but=["sessions.model_config", USAGE]):
        upgrade(path)
    held = values(path, one_driver, f"SELECT model, input_tokens FROM {USAGE} WHERE session_id = 's'")
    assert held == ([("m", 5)] if number < 20 else [])
    assert marks(path, one_driver)["fts_optimize_available"] == "1"
    use(path, story.session_ids[0])


def test_reading_only_needs_no_stamp(path: Path, driver: str) -> None:
    story = build_version(path, module_of(driver), 16, variant="late", sessions=2, turns=1)
    alter(path, module_of(driver), LOSSES["table"])
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        assert {each["id"] for each in db.export_all()} == set(story.session_ids)
    assert path.read_bytes() == before
