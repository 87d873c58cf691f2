"""The builders of every version: the files are sound, hold what their story says, and look like those in the field."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.schema.inspecting import describe_all, rows
from tests.snapshots.build import VARIANTS, VERSIONS, build_version, plan_of
from tests.snapshots.checking import index_faults
from tests.snapshots.hermes_v23 import build
from tests.snapshots.history import TWO_SHAPES, column_names, step_of
from tests.snapshots.search_indexes import TRIGRAMS, WORDS, trigger_names
from tests.snapshots.writing import raw

SHAPES = pytest.mark.parametrize(("version", "variant"), VARIANTS)
NARROW = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%AFTER UPDATE OF %'"
REAL_FILES = "HERMES_SNAPSHOTS"


def _columns(connection: Any, table: str) -> set[str]:
    return {name for (name,) in rows(connection, "SELECT name FROM pragma_table_info(?)", (table,))}


@SHAPES
def test_a_built_file_is_sound(path: Path, module: Any, version: int, variant: str | None) -> None:
    story = build_version(path, module, version, variant=variant)
    with raw(path, module) as connection:
        assert rows(connection, "PRAGMA integrity_check") == [("ok",)]
        assert rows(connection, "PRAGMA foreign_key_check") == []
        assert rows(connection, "SELECT version FROM schema_version") == [(version,)]
        assert rows(connection, "PRAGMA journal_mode") == [("delete",)]
        assert rows(connection, NARROW) == []
        assert index_faults(connection, story.session_ids[0]) == []
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@SHAPES
@pytest.mark.parametrize(("sessions", "turns"), [(14, 8), (5, 3), (1, 1)])
def test_the_story_counts_what_the_file_holds(
    path: Path, any_module: Any, version: int, variant: str | None, sessions: int, turns: int
) -> None:
    story = build_version(path, any_module, version, variant=variant, sessions=sessions, turns=turns)
    with raw(path, any_module) as connection:
        messages = _columns(connection, "messages")
        by_session = "SELECT session_id, {} FROM messages GROUP BY session_id"
        live = "sum(active)" if "active" in messages else "count(*)"
        assert tuple(row[0] for row in rows(connection, "SELECT id FROM sessions ORDER BY rowid")) == story.session_ids
        assert dict(rows(connection, by_session.format("count(*)"))) == story.rows
        assert dict(rows(connection, by_session.format(live))) == story.active_rows
        assert sum(story.rows.values()) == story.message_rows
        assert dict(rows(connection, "SELECT id, message_count FROM sessions")) == story.message_counts
        assert dict(rows(connection, "SELECT id, tool_call_count FROM sessions")) == story.tool_call_counts
        assert {row[0] for row in rows(connection, "SELECT id FROM sessions WHERE ended_at IS NULL")} == set(
            story.live_ids
        )
        sums = rows(connection, "SELECT sum(input_tokens), sum(output_tokens) FROM sessions")
        assert sums == [(story.input_tokens, story.output_tokens)]
        parents = dict(rows(connection, "SELECT id, parent_session_id FROM sessions WHERE parent_session_id <> ''"))
        told = [(child, parent) for parent, child in story.chains] + ([story.delegate] if story.delegate else [])
        assert parents == dict(told)


def _flagged(connection: Any, known: Iterable[str], column: str, condition: str) -> tuple[int, ...]:
    if column not in known:
        return ()
    return tuple(row[0] for row in rows(connection, f"SELECT id FROM messages WHERE {condition} ORDER BY id"))


@SHAPES
def test_the_story_knows_what_the_version_has_no_column_for(
    path: Path, any_module: Any, version: int, variant: str | None
) -> None:
    story = build_version(path, any_module, version, variant=variant)
    with raw(path, any_module) as connection:
        messages, sessions = _columns(connection, "messages"), _columns(connection, "sessions")
        held = {
            "observed_ids": _flagged(connection, messages, "observed", "observed = 1"),
            "recalled_ids": _flagged(connection, messages, "api_content", "api_content IS NOT NULL"),
            "switch_ids": _flagged(connection, messages, "display_kind", "display_kind = 'model_switch'"),
            "codex_ids": _flagged(connection, messages, "codex_message_items", "codex_message_items IS NOT NULL"),
            "archived_ids": _flagged(connection, messages, "compacted", "compacted = 1"),
            "rewound_ids": _flagged(
                connection, messages, "active", "active = 0" + (" AND NOT compacted" if "compacted" in messages else "")
            ),
        }
        assert held == {name: getattr(story, name) for name in held}
        pictures = rows(connection, "SELECT id FROM messages WHERE substr(CAST(content AS BLOB), 1, 1) = x'00'")
        assert pictures == ([(story.structured_id,)] if story.structured_id else [])
        assert (story.structured_id is not None) == (version >= 12)
        titles = rows(connection, "SELECT id, title FROM sessions WHERE title <> ''") if "title" in sessions else []
        assert dict(titles) == story.titles
        cost = rows(connection, "SELECT sum(estimated_cost_usd) FROM sessions") if version >= 5 else [(0.0,)]
        assert cost == [(story.estimated_cost_usd,)]
        tables = set(column_names(step_of(version, variant)))
        assert (dict(rows(connection, "SELECT key, value FROM state_meta")) if "state_meta" in tables else {}) == (
            story.meta
        )
        usage = rows(connection, "SELECT count(*) FROM session_model_usage") if version >= 20 else [(0,)]
        assert usage == [(story.usage_rows,)]
        routed = rows(connection, "SELECT session_key FROM gateway_routing") if version >= 19 else []
        assert {row[0] for row in routed} == set(story.routing)


def _found(connection: Any, index: str, word: str, visible: str) -> set[str]:
    query = (
        f"SELECT DISTINCT session_id FROM {index} JOIN messages ON messages.id = {index}.rowid"
        f" WHERE {index} MATCH ? AND {visible}"
    )
    return {row[0] for row in rows(connection, query, (f'"{word}"',))}


@SHAPES
def test_the_indexes_find_the_words_of_the_story_where_it_says(
    path: Path, module: Any, version: int, variant: str | None
) -> None:
    story = build_version(path, module, version, variant=variant)
    with raw(path, module) as connection:
        messages = _columns(connection, "messages")
        shown = [f"messages.{name}" for name in ("active", "compacted") if name in messages]
        visible = f"({' OR '.join(shown)})" if shown else "1"
        for words in (story.english, story.phrases, story.tool_only, story.call_only):
            for word, owners in words.items():
                assert _found(connection, WORDS, word, visible) == set(owners), word
        if version >= 10:
            for words in (story.chinese, story.other_scripts):
                for word, owners in words.items():
                    assert len(word) < 3 or _found(connection, TRIGRAMS, word, visible) == set(owners), word
        for word in story.rewound_words:
            assert _found(connection, WORDS, word, "1")
            assert not _found(connection, WORDS, word, visible)
        asked = {word: _found(connection, WORDS, word, visible) for word in plan_of(110).story.call_only}
        assert {word for word, owners in asked.items() if owners} == set(story.call_only)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 11])
def test_narrow_update_triggers_name_the_columns_they_watch(path: Path, any_module: Any, version: int) -> None:
    story = build_version(path, any_module, version, narrow=True)
    with raw(path, any_module) as connection:
        assert len(rows(connection, NARROW)) == 2
        assert index_faults(connection, story.session_ids[0]) == []


@pytest.mark.parametrize(("version", "variant"), [(3, None), (24, None), (8, "late"), (16, "middle")])
def test_a_shape_that_never_was_is_refused(path: Path, any_module: Any, version: int, variant: str | None) -> None:
    with pytest.raises(ValueError, match="version"):
        build_version(path, any_module, version, variant=variant)


@pytest.mark.parametrize("version", [1, 10])
def test_the_old_external_index_has_no_narrow_triggers(path: Path, any_module: Any, version: int) -> None:
    with pytest.raises(ValueError, match="narrow"):
        build_version(path, any_module, version, narrow=True)


def test_late_builds_differ_from_early_ones(path: Path, any_module: Any) -> None:
    for version in TWO_SHAPES:
        shapes = []
        for variant in ("early", "late"):
            file = path.with_name(f"{version}-{variant}.db")
            build_version(file, any_module, version, variant=variant, sessions=1, turns=1)
            with raw(file, any_module) as connection:
                shapes.append(describe_all(connection))
        assert shapes[0] != shapes[1], version


def test_both_builders_of_version_23_make_one_shape(path: Path, any_module: Any) -> None:
    build(path, any_module, journal_mode="delete")
    other = path.with_name("other.db")
    build_version(other, any_module, 23, variant="late", narrow=True)
    objects = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY name"
    with raw(path, any_module) as one, raw(other, any_module) as two:
        assert describe_all(one) == describe_all(two)
        assert rows(one, objects) == rows(two, objects)
        for table in describe_all(one):
            assert rows(one, f"SELECT * FROM {table}") == rows(two, f"SELECT * FROM {table}")


def _squeezed(text: str) -> str:
    return re.sub(r"[\s'\"]+", "", text).lower()


def _search_objects(connection: Any) -> Mapping[str, str]:
    query = "SELECT name, sql FROM sqlite_master WHERE name IN (?, ?) OR type IN ('trigger', 'view')"
    return {name: _squeezed(text) for name, text in rows(connection, query, (WORDS, TRIGRAMS))}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_built_file_looks_like_the_real_one(path: Path, any_module: Any, version: int) -> None:
    """Set HERMES_SNAPSHOTS to a folder of files named `*v<version>.db` that the releases themselves wrote."""
    folder = os.environ.get(REAL_FILES)
    if not folder:
        pytest.skip(f"{REAL_FILES} names no folder of real files")
    originals = list(Path(folder).glob(f"*v{version}.db"))
    if not originals:
        pytest.skip(f"no real file of version {version}")
    real = path.with_name("real.db")
    shutil.copy(originals[0], real)
    real.chmod(0o600)
    build_version(path, any_module, version)
    with raw(path, any_module) as ours, raw(real, any_module) as theirs:
        assert describe_all(ours) == describe_all(theirs)
        names = "SELECT type, name FROM sqlite_master ORDER BY type, name"
        assert rows(ours, names) == rows(theirs, names)
        ours_found, theirs_found = _search_objects(ours), _search_objects(theirs)
        assert set(trigger_names(version)) <= set(ours_found)
        if version < 23:
            assert ours_found == theirs_found
