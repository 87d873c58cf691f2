"""What an upgrade did is told by the handle, and kept in the file for whoever looks later."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import Store
from hermes_store.fts import indexes
from tests.cli.running import run_here
from tests.schema.inspecting import change, meta, opened
from tests.snapshots.build import build_version
from tests.snapshots.damaged import DAMAGES
from tests.snapshots.facts import add, session
from tests.snapshots.history import TITLE_INDEX
from tests.snapshots.newer import build_newer
from tests.support.clocks import FakeClock
from tests.upgrade.files import check_quiet, module_of, upgrade

KEY = "hermes_store_last_upgrade"
Info = Callable[[], Any]


@pytest.fixture
def info(capsys: pytest.CaptureFixture[str], path: Path) -> Info:
    """`info()`: what `db info --json` says of the last upgrade of the file."""
    return lambda: run_here(capsys, ("--json", "db", "info"), path).data().json["last_upgrade"]


@pytest.mark.parametrize("version", [1, 10, 20, 22, 23])
def test_info_tells_what_the_last_upgrade_did(path: Path, driver: str, version: int, info: Info) -> None:
    build_version(path, module_of(driver), version, sessions=2, turns=1)
    assert info() is None
    clock = FakeClock(1_780_000_000.0)
    with Store.open(path, clock=clock) as store:
        report = store.report
    told = info()
    assert told["at"] == 1_780_000_000.0
    wanted = json.loads(json.dumps(report.as_dict()))
    assert {name: told["report"][name] for name in told["report"]} == {name: wanted[name] for name in told["report"]}
    assert told["report"]["stamp"] == version
    assert told["report"]["adopted"] is True


def test_an_open_that_changes_nothing_leaves_the_note(path: Path, one_driver: str, info: Info) -> None:
    build_version(path, module_of(one_driver), 16, sessions=2, turns=1)
    upgrade(path)
    before = info()
    with Store.open(path) as store:
        store.write(lambda unit: unit.create_session("new", "cli"))
    check_quiet(path, one_driver)
    # The schema has moved, so the next open looks at everything, and finds nothing to do.
    change(path, one_driver, "CREATE TABLE stranger (x)")
    assert not upgrade(path).changed
    assert info() == before


def test_a_later_repair_takes_its_place(path: Path, one_driver: str, info: Info) -> None:
    build_version(path, module_of(one_driver), 22, sessions=2, turns=1)
    upgrade(path)
    change(path, one_driver, "DROP TRIGGER messages_fts_insert")
    report = upgrade(path)
    assert (report.adopted, report.revisions_run, report.stamp) == (False, (), 23)
    told = info()["report"]
    assert told["search_rebuilt"] == list(report.search_rebuilt) == ["messages_fts", "messages_fts_trigram"]
    assert told["adopted"] is False


def test_a_new_file_has_no_note(path: Path, one_driver: str, info: Info) -> None:
    with Store.open(path) as store:
        assert (store.report.created, store.report.stamp, store.report.adopted) == (True, None, False)
    assert info() is None


def test_reading_only_leaves_none(path: Path, one_driver: str, info: Info) -> None:
    build_version(path, module_of(one_driver), 16, sessions=2, turns=1)
    with Store.open(path, read_only=True) as store:
        assert not store.report.changed
    assert info() is None


@pytest.mark.parametrize(
    "note", ["", "no json", "[]", "null", "5", '{"at": "x"}', "{}", '{"at": 1, "stamp": [], "unknown": 1}']
)
def test_a_note_that_cannot_be_read_is_none(path: Path, one_driver: str, info: Info, note: str) -> None:
    build_version(path, module_of(one_driver), 22, sessions=2, turns=1)
    upgrade(path)
    with opened(path, one_driver) as raw:
        raw.execute("UPDATE state_meta SET value = ? WHERE key = ?", (note, KEY))
    told = info()
    assert told is None or set(told) == {"at", "report"}


def test_titles_that_were_cleared_are_named_a_hundred_at_most_in_the_file(
    path: Path, one_driver: str, info: Info
) -> None:
    build_version(path, module_of(one_driver), 22, sessions=2, turns=1)
    change(path, one_driver, f"DROP INDEX {TITLE_INDEX}")
    add(path, module_of(one_driver), {"sessions": [session(f"s{place:03}", title="same") for place in range(151)]})
    report = upgrade(path)
    assert report.titles_cleared == tuple(f"s{place:03}" for place in range(150))
    assert info()["report"]["titles_cleared"] == [f"s{place:03}" for place in range(100)]


TELLS: dict[str, dict[str, object]] = {
    "null_active_v22_late": {"adopted": True, "stamp": 22, "revisions_run": ("0023",)},
    "duplicate_titles": {"titles_cleared": ("titled-0", "titled-1")},
    "routing_without_key": {"keys_healed": ("gateway_routing",), "revisions_run": ("0021", "0022", "0023")},
    "orphan_usage_v22_five_column_key": {"keys_healed": ("session_model_usage",)},
    "interrupted_usage_rebuild_v21_created": {"leftovers_adopted": ("session_model_usage_v21",)},
    "interrupted_usage_rebuild_legacy_pk_copied": {"leftovers_adopted": ("session_model_usage_legacy_pk",)},
    "interrupted_routing_rebuild": {"leftovers_adopted": ("gateway_routing_legacy_pk",)},
    "interrupted_topic_rebuild_dropped": {"leftovers_adopted": ("telegram_dm_topic_bindings_new",)},
    "missing_messages_fts_insert_v23": {"search_rebuilt": ("messages_fts",)},
    "missing_messages_fts_trigram_delete_v16": {"search_rebuilt": ("messages_fts", "messages_fts_trigram")},
    "no_index_v23": {"search_rebuilt": ("messages_fts", "messages_fts_trigram")},
    "broad_update_triggers_v23": {"triggers_replaced": ("messages_fts_update", "messages_fts_trigram_update")},
    "title_index_missing_v23": {"titles_cleared": ()},
    "unfinished_rebuild": {"search_rebuilt": (), "search_pending": ()},
    "stamp_99_on_v22": {"stamp": 99, "revisions_run": ()},
    "lost_stamp_row_v15": {"stamp": 14, "adopted": True},
}
"""What the report says of damaged files, field by field."""


@pytest.mark.parametrize("name", TELLS)
def test_every_kind_of_repair_is_told(path: Path, one_driver: str, name: str) -> None:
    DAMAGES[name].make(module_of(one_driver), path)
    with Store.open(path) as store:
        report = store.report
    assert {field: getattr(report, field) for field in TELLS[name]} == TELLS[name]
    assert report.changed
    assert report.as_dict()["changed"] is True
    assert json.loads(json.dumps(report.as_dict()))["revision"] == "0023"


def test_rows_that_were_repaired_are_counted(path: Path, one_driver: str) -> None:
    facts = DAMAGES["null_active_v23_late"].make(module_of(one_driver), path)
    assert upgrade(path).rows_repaired == len(facts.known["ids"]) > 0


def test_what_is_left_for_later_is_told(path: Path, one_driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build_version(path, module_of(one_driver), 9)
    monkeypatch.setattr(indexes, "REBUILD_LIMIT", 10)
    report = upgrade(path)
    assert (report.search_rebuilt, report.search_pending) == ((), ("messages_fts", "messages_fts_trigram"))


@pytest.mark.parametrize("stamp", [24, 25, 30])
def test_a_newer_file_is_told_too(path: Path, one_driver: str, stamp: int, info: Info) -> None:
    build_newer(path, module_of(one_driver), stamp)
    upgrade(path)
    assert info()["report"]["stamp"] == stamp


def test_the_steps_are_told_before_they_begin(path: Path, one_driver: str) -> None:
    build_version(path, module_of(one_driver), 9, sessions=2, turns=1)
    steps: list[str] = []
    Store.open(path, progress=steps.append).close()
    assert steps[0] == "tables and columns"
    assert any("0016" in step for step in steps)
    assert any(step.startswith("index ") for step in steps)
    assert "search indexes" in steps
    told: list[str] = []
    Store.open(path, progress=told.append).close()
    assert told == []


def test_no_title_and_no_text_is_in_the_note(path: Path, one_driver: str) -> None:
    build_version(path, module_of(one_driver), 10, sessions=2, turns=1)
    change(path, one_driver, f"DROP INDEX {TITLE_INDEX}")
    add(path, module_of(one_driver), {"sessions": [session(f"s{n}", title="a secret plan") for n in range(2)]})
    upgrade(path)
    with opened(path, one_driver) as raw:
        assert "secret" not in str(meta(raw)[KEY])
