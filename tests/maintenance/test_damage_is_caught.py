"""A wrong upgrade does not pass: damage is found, and named without quoting anybody (rules TEST-2 and TEST-3)."""

from dataclasses import replace

import pytest

from tests.maintenance.conftest import Upgraded

SECRET = "passphrase-swordfish"


def test_a_right_upgrade_passes(upgraded: Upgraded) -> None:
    check = upgraded(23).verify()
    assert check.problems == ()
    assert (check.ok, check.stamp, check.sessions > 0, check.messages > 0) == (True, 23, True, True)


DAMAGE: dict[str, tuple[str, ...]] = {
    "a text": (f"UPDATE messages SET content = '{SECRET}' WHERE id = 3", "messages: row 3: content changed"),
    "a text that became bytes": (
        "UPDATE messages SET tool_call_id = CAST('call' AS BLOB), content = CAST(content AS BLOB) WHERE id = 3",
        "messages: row 3: content changed",
    ),
    "a text that became NULL": ("UPDATE messages SET content = NULL WHERE id = 3", "messages: row 3: content changed"),
    "a number": (
        "UPDATE sessions SET input_tokens = input_tokens + 1 WHERE rowid = 1",
        ": input_tokens changed",
    ),
    "a title": ("UPDATE sessions SET title = NULL WHERE title IS NOT NULL", ": title changed"),
    "a lost message": ("DELETE FROM messages WHERE id = 3", "messages: row 3: was removed"),
    "a message too many": (
        "INSERT INTO messages (session_id, role, content, timestamp) SELECT id, 'user', 'x', 1 FROM sessions LIMIT 1",
        "was added",
    ),
    "a lost usage row": (
        "DELETE FROM session_model_usage WHERE rowid = 1",
        "session_model_usage: row '",
    ),
    "a usage row too many": (
        "INSERT INTO session_model_usage (session_id, model) SELECT id, 'other' FROM sessions LIMIT 1",
        "was added",
    ),
    "a routing entry": ("UPDATE gateway_routing SET entry_json = '{}'", "entry_json changed"),
    "a mark of somebody": (
        "DELETE FROM state_meta WHERE key = 'last_auto_prune'",
        "row 'last_auto_prune': was removed",
    ),
    "a stamp that was lowered": ("UPDATE schema_version SET version = 5", "schema_version: row 1: version changed"),
    "a lost table": ("DROP TABLE kept_by_somebody", "table kept_by_somebody is gone, with 1 rows"),
    "a row of a table without rowid": (
        "DELETE FROM kept_without_rowid WHERE a = 1",
        "kept_without_rowid: row 1, 2: was removed",
    ),
    "an id that may be given twice": ("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'messages'", "the highest id"),
    "an orphan": (
        "INSERT INTO session_model_usage (session_id, model) VALUES ('gone', 'm')",
        "foreign keys: 1 more rows of session_model_usage name a missing row of sessions",
    ),
    "a lost index": (
        "DROP INDEX idx_sessions_source",
        "schema: lacks: idx_sessions_source: index on sessions (source)",
    ),
    "an index without its condition": (
        "DROP INDEX idx_messages_active_null",
        "CREATE INDEX idx_messages_active_null ON messages (active)",
        "schema: differs: idx_messages_active_null",
    ),
    "a lost trigger": ("DROP TRIGGER messages_fts_delete", "schema: lacks: messages_fts_delete"),
    "a trigger that does nothing": (
        "DROP TRIGGER messages_fts_insert",
        "CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN SELECT 1; END",
        "schema: differs: messages_fts_insert",
    ),
    "a lost trigger of somebody": ("DROP TRIGGER of_somebody", "schema: of_somebody is gone or was changed"),
    "a lost column of somebody": (
        "ALTER TABLE kept_by_somebody DROP COLUMN b",
        "kept_by_somebody: the column b is gone",
    ),
    "an emptied index of words": (
        "INSERT INTO messages_fts(messages_fts) VALUES ('delete-all')",
        "index messages_fts differs from the messages",
    ),
    "an emptied index of substrings": (
        "INSERT INTO messages_fts_trigram(messages_fts_trigram) VALUES ('delete-all')",
        "index messages_fts_trigram differs from the messages",
    ),
    "an open that was not the last": (
        "DELETE FROM state_meta WHERE key LIKE 'hermes_store_%'",
        "a second open changed",
    ),
    "leftovers": (
        "CREATE TABLE gateway_routing_legacy_pk (session_key TEXT PRIMARY KEY, entry_json TEXT, updated_at REAL)",
        "a second open changed",
    ),
    "writes that fail": (
        "CREATE TRIGGER refuses BEFORE INSERT ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END",
        "write: ",
    ),
}
SOMEBODY = (
    "CREATE TABLE kept_by_somebody (a, b)",
    "INSERT INTO kept_by_somebody VALUES (1, 2)",
    "CREATE TABLE kept_without_rowid (a, b, c, PRIMARY KEY (a, b)) WITHOUT ROWID",
    "INSERT INTO kept_without_rowid VALUES (1, 2, 3)",
    "CREATE TRIGGER of_somebody AFTER INSERT ON kept_by_somebody BEGIN SELECT 1; END",
)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_wrong_upgrade_is_caught(upgraded: Upgraded, name: str) -> None:
    *statements, expected = DAMAGE[name]
    pair = upgraded(23, *SOMEBODY)
    pair.spoil(*statements)
    check = pair.verify()
    assert not check.ok
    assert any(expected in problem for problem in check.problems), check.problems
    assert not any(SECRET in text for text in (*check.problems, *check.notes))


WRONG = {
    "a marker and something else": (
        "model_config",
        "UPDATE sessions SET model_config = json_set(model_config, '$.other', 1) WHERE model_config LIKE '%_from%'",
        ": model_config changed",
    ),
    "another session that shares no title": (
        "duplicate_titles",
        "UPDATE sessions SET title = NULL WHERE rowid = (SELECT max(rowid) FROM sessions WHERE title IS NOT NULL)",
        ": title changed",
    ),
    "tokens that are counted twice": (
        "usage_backfill",
        "UPDATE session_model_usage SET input_tokens = input_tokens * 2 + 1",
        "was added",
    ),
    "a counter that is no count": (
        "usage_backfill",
        "UPDATE sessions SET input_tokens = 77 WHERE rowid IN (SELECT rowid FROM sessions)",
        ": input_tokens changed",
    ),
    "an older routing entry": (
        "routing_without_key",
        "UPDATE gateway_routing SET entry_json = 'mid', updated_at = 5 WHERE session_key = 'k' AND scope = ''",
        "changed",
    ),
    "usage that is more than the sum": (
        "interrupted_usage_rebuild_v21_used",
        "UPDATE session_model_usage SET input_tokens = input_tokens + 1000000",
        ": input_tokens changed",
    ),
    "usage that is lost": (
        "interrupted_usage_rebuild_v21_renamed",
        "DELETE FROM session_model_usage WHERE rowid = 1",
        "session_model_usage_v21: row",
    ),
    "a hidden message": ("null_active_v23_late", "UPDATE messages SET active = 0 WHERE id = 1", "active changed"),
    "a trigger of an older layout": ("null_active_v22_late", "DROP TRIGGER messages_fts_delete", "lacks the trigger"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_looks_like_an_exception_and_is_none_is_caught(upgraded: Upgraded, name: str) -> None:
    damage, statement, expected = WRONG[name]
    pair = upgraded(damage)
    pair.spoil(statement)
    problems = pair.verify().problems
    assert any(expected in problem for problem in problems), problems


def test_a_title_that_the_report_does_not_name_is_caught(upgraded: Upgraded) -> None:
    pair = upgraded("duplicate_titles")
    silent = replace(pair, report=replace(pair.report, titles_cleared=()))
    assert pair.report.titles_cleared
    assert any(problem.endswith(": title changed") for problem in silent.verify().problems)


def test_many_problems_of_one_kind_are_counted_and_not_listed(upgraded: Upgraded) -> None:
    pair = upgraded(23)
    pair.spoil("UPDATE messages SET token_count = coalesce(token_count, 0) + 1")
    problems = [problem for problem in pair.verify().problems if problem.startswith("messages")]
    assert len(problems) == 6
    assert problems[-1].endswith("more rows changed")


def test_a_rebuild_that_is_left_for_later_is_said_and_not_held_against_the_file(upgraded: Upgraded) -> None:
    check = upgraded("unfinished_rebuild").verify()
    assert check.problems == ()
    assert any("marked for a later rebuild" in note for note in check.notes)
