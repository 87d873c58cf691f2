"""Every version, early and late builds of it: opened once, a file has the shape of a new store and all of its rows."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from tests.schema.inspecting import opened, rows
from tests.snapshots.build import VARIANTS, build_version, plan_of
from tests.snapshots.history import step_of
from tests.snapshots.story import Row, Story
from tests.support.drivers import Engine, engines
from tests.upgrade.files import (
    check_quiet,
    check_sound,
    columns_of,
    golden_columns,
    golden_indexes,
    holders,
    kept,
    marks,
    module_of,
    turn_by_turn,
    upgrade,
    use,
    values,
)

SHAPES = pytest.mark.parametrize(
    ("version", "variant"),
    VARIANTS,
    ids=[f"v{version}{f'-{variant}' if variant else ''}" for version, variant in VARIANTS],
)
REVISIONS = {0: ("0016", "0018", "0020", "0021", "0022", "0023"), 16: ("0018", "0020", "0021", "0022", "0023")}
REVISIONS |= {18: ("0020", "0021", "0022", "0023"), 20: ("0021", "0022", "0023"), 21: ("0022", "0023"), 22: ("0023",)}
REVISIONS |= {23: ()}
"""The revisions that run, by the lowest stamp for which they do."""

NULL_ENDPOINTS = {"session_model_usage.billing_base_url": ""}
"""What the first usage table could leave open."""


def on_engines(begin: int) -> pytest.MarkDecorator:
    """Every shape on one engine by default, on all of them in the full form."""
    pairs = turn_by_turn(VARIANTS, engines(), begin=begin)
    return pytest.mark.parametrize(("version", "variant", "engine"), pairs, indirect=["engine"])


def _build(path: Path, engine: Engine, version: int, variant: str | None) -> Story:
    module = module_of(engine.driver)
    return build_version(path, module, version, variant=variant, journal_mode=engine.journal_mode)


@on_engines(begin=0)
def test_a_file_comes_home_whole(path: Path, engine: Engine, version: int, variant: str | None) -> None:
    story = _build(path, engine, version, variant)
    with opened(path, engine.driver) as raw:
        columns = columns_of(raw)
        present = {name for table, names in columns.items() for name in (table, *(f"{table}.{each}" for each in names))}
        indexes = {row[0] for row in rows(raw, "SELECT name FROM sqlite_master WHERE type = 'index'")}
    with kept(path, engine.driver, filled=NULL_ENDPOINTS):
        report = upgrade(path)
    assert (report.adopted, report.created, report.changed) == (True, False, True)
    assert (report.stamp, report.revision) == (version, "0023")
    assert report.revisions_run == REVISIONS[max(since for since in REVISIONS if since <= version)]
    added = {name for name in golden_columns() - present if name.partition(".")[0] in columns}
    assert sorted(report.columns_added) == sorted(added)
    assert sorted(report.indexes_created) == sorted(golden_indexes() - indexes)
    assert report.keys_healed == (("session_model_usage",) if version in (20, 21) else ())
    assert report.search_rebuilt == (("messages_fts", "messages_fts_trigram") if version < 10 else ())
    assert bool(report.triggers_replaced) == (version == 23)
    assert (report.leftovers_adopted, report.search_pending, report.titles_cleared) == ((), (), ())
    assert (report.rows_reindexed, report.rows_repaired, report.counters_repaired, report.backup) == (0, 0, 0, None)
    assert values(path, engine.driver, "SELECT version FROM schema_version") == [(23,)]
    assert values(path, engine.driver, "SELECT version_num FROM alembic_version") == [("0023",)]
    expected: dict[str, Any] = {"fts_storage_version": "1"} if version == 23 else {"fts_optimize_available": "1"}
    assert marks(path, engine.driver) == {**story.meta, **expected}
    check_sound(path, engine.driver, story.session_ids[0])
    check_quiet(path, engine.driver)


@on_engines(begin=1)
def test_it_is_searched_and_used(path: Path, engine: Engine, version: int, variant: str | None) -> None:
    story = _build(path, engine, version, variant)
    upgrade(path)
    # Old indexes of the text alone are filled with the calls of tools too, where they have to be filled.
    call_only = plan_of(110).story.call_only if version < 10 else story.call_only
    with SessionDB(path) as db:
        for words in (story.english, story.chinese, story.other_scripts, story.tool_only, call_only):
            for word, owners in words.items():
                assert holders(db, word) == set(owners), word
        for phrase, owners in story.phrases.items():
            assert holders(db, f'"{phrase}"') == set(owners), phrase
        assert {word: holders(db, word) for word in story.rewound_words} == {key: set() for key in story.rewound_words}
        assert [db.get_session_title(each) for each in story.titles] == list(story.titles.values())
        for name in story.session_ids:
            assert len(db.get_messages(name)) == story.active_rows[name]
    use(path, story.session_ids[0])
    check_sound(path, engine.driver, story.session_ids[1])
    check_quiet(path, engine.driver)


COUNTERS = ("api_call_count", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
            "reasoning_tokens", "estimated_cost_usd", "actual_cost_usd")  # fmt: skip


def _spent(row: Row) -> tuple[Any, ...] | None:
    """The usage row of a session of before version 20; None for one without tokens."""
    if not any(row.get(name) or 0 for name in COUNTERS[1:6]):
        return None
    route = [row.get(name) or "" for name in ("billing_provider", "billing_base_url", "billing_mode")]
    ended = row["ended_at"] if row.get("ended_at") is not None else row["started_at"]
    return (
        row["id"], row.get("model") or "unknown", *route, "", *(row.get(name) or 0 for name in COUNTERS),
        row.get("cost_status"), row.get("cost_source"), row["started_at"], ended,
    )  # fmt: skip


@pytest.mark.parametrize("version", [version for version, _ in VARIANTS if version < 20])
def test_what_sessions_spent_before_usage_had_rows_is_accounted_for(path: Path, one_driver: str, version: int) -> None:
    build_version(path, module_of(one_driver), version)
    upgrade(path)
    told = [_spent(row) for row in plan_of(step_of(version)).tables["sessions"]]
    statement = (
        f"SELECT session_id, model, billing_provider, billing_base_url, billing_mode, task, {', '.join(COUNTERS)},"
        " cost_status, cost_source, first_seen, last_seen FROM session_model_usage ORDER BY session_id"
    )
    assert values(path, one_driver, statement) == sorted((each for each in told if each), key=lambda each: each[0])


@SHAPES
def test_it_can_be_read_before_it_is_upgraded_and_no_byte_changes(
    path: Path, one_driver: str, version: int, variant: str | None
) -> None:
    story = build_version(path, module_of(one_driver), version, variant=variant)
    before = path.read_bytes()
    with SessionDB(path, read_only=True) as db:
        assert {each["id"] for each in db.export_all()} == set(story.session_ids)
        listed = {each["id"] for each in db.list_sessions_rich(limit=100)}
        assert listed
        for words in (story.english, story.chinese, story.other_scripts):
            for word, owners in words.items():
                assert holders(db, word) == set(owners), word
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with SessionDB(path) as db:
        assert {each["id"] for each in db.list_sessions_rich(limit=100)} == listed
