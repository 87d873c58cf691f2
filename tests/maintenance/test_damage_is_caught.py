"""A wrong upgrade does not pass: damage is found, and named without quoting anybody (rules TEST-2 and TEST-3)."""

from dataclasses import replace

import pytest

from tests.maintenance.conftest import Upgraded
from tests.schema.inspecting import change

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


# -- effects of an upgrade that are none ------------------------------------------------------------------------

EFFECTS: dict[str, tuple[int | str, str, str]] = {
    "hidden messages": (10, "UPDATE messages SET compacted = 1, active = 0", "active was added and does not hold"),
    "no message is live": (10, "UPDATE messages SET active = 0", "none of its messages is live"),
    "flags of sessions": (10, "UPDATE sessions SET archived = 1, rewind_count = 4, pinned = 1", ": archived was added"),
    "observed": (10, "UPDATE messages SET observed = NULL", ": observed was added"),
    "display": (10, "UPDATE messages SET display_kind = 'hidden'", ": display_kind was added"),
    "a profile": (10, "UPDATE sessions SET profile_name = 'bogus'", ": profile_name was added"),
    "a chat without a gateway": (15, "UPDATE sessions SET chat_id = 'bogus'", ": chat_id was added"),
    "expired without a gateway": (15, "UPDATE sessions SET expiry_finalized = 1", ": expiry_finalized was added"),
    "another chat than the gateway's": (
        "gateway_json", "UPDATE sessions SET chat_id = '56' WHERE id = 'g-full'", "chat_id is not what sessions.json"
    ),
    "a chat that was not taken over": (
        "gateway_json", "UPDATE sessions SET session_key = NULL WHERE id = 'g-after'", "session_key is not what"
    ),
    "expired is not taken over": (
        "gateway_json", "UPDATE sessions SET expiry_finalized = 0 WHERE id = 'g-flushed'", "expiry_finalized is not"
    ),
    "a marker for everybody": (
        15,
        "UPDATE sessions SET model_config = '{\"_delegate_from\":\"bogus\"}' WHERE parent_session_id IS NULL",
        ": model_config changed",
    ),
    "a marker of another parent": (
        "model_config",
        "UPDATE sessions SET model_config = '{\"_delegate_from\":\"Q\"}' WHERE id = 'child'",
        "session 'child': model_config lacks its marker",
    ),
    "a marker that is missing": (
        "model_config",
        "UPDATE sessions SET model_config = NULL WHERE id = 'root'",
        "session 'root': model_config lacks its marker",
    ),
    "usage that is not accounted for": ("usage_backfill", "DELETE FROM session_model_usage", "that no row accounts"),
    "usage at another time": ("usage_backfill", "UPDATE session_model_usage SET first_seen = 1", "was added"),
    "usage of another route": ("usage_backfill", "UPDATE session_model_usage SET billing_provider = 'q'", "was added"),
    "usage at another price": (
        "usage_backfill", "UPDATE session_model_usage SET estimated_cost_usd = 9 WHERE session_id = 'used-full'",
        "was added",
    ),
    "usage with other calls": (
        "usage_backfill", "UPDATE session_model_usage SET api_call_count = 99 WHERE session_id = 'used-full'",
        "was added",
    ),
    "usage with another price status": (
        "usage_backfill", "UPDATE session_model_usage SET cost_status = 'included'", "was added",
    ),
    "usage with other columns added": (
        "failed_usage_rebuild_v20", "UPDATE session_model_usage SET cost_source = 'bogus'", "session_model_usage",
    ),
    "sums that are short": (
        "interrupted_usage_rebuild_v21_used",
        "UPDATE session_model_usage SET input_tokens = input_tokens - 1 WHERE input_tokens > 70",
        ": input_tokens changed",
    ),
    "a count that is none": (
        "usage_backfill",
        "UPDATE sessions SET message_count = 99999 WHERE id = 'used-bare'",
        "session 'used-bare': message_count changed",
    ),
    "a number of somebody": (15, "PRAGMA user_version = 77", "user_version was 0 and is 77"),
    "an identity of somebody": (15, "PRAGMA application_id = 5", "application_id was 0 and is 5"),
    "a stamp that was not raised": (15, "UPDATE schema_version SET version = 15", "the stamp was not raised"),
    "another revision": (15, "UPDATE alembic_version SET version_num = '0020'", "the revision was not noted"),
    "a table of nobody": (15, "CREATE TABLE bogus (a)", "table bogus was not there before"),
    "a view of nobody": (15, "CREATE VIEW bogus AS SELECT 1", "bogus was not there before"),
    "a column of nobody": (15, "ALTER TABLE messages ADD COLUMN bogus", "the column bogus was not there before"),
    "a row that an index lacks": (22, "DELETE FROM messages_fts WHERE rowid = 5", "messages_fts differs"),
    "a row that only an index has": (22, "INSERT INTO messages_fts(rowid, content) VALUES (99999, 'x')", "differs"),
    "another text in an index": (
        22, "UPDATE messages_fts_trigram SET content = 'else' WHERE rowid = 5", "messages_fts_trigram differs"
    ),
    "an older mark": (22, "DELETE FROM state_meta WHERE key = 'fts_optimize_available'", "fts_optimize_available"),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_what_an_upgrade_does_not_do_is_caught(upgraded: Upgraded, name: str) -> None:
    kind, statement, expected = EFFECTS[name]
    pair = upgraded(kind)
    pair.spoil(statement)
    problems = pair.verify().problems
    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize("kind", sorted({str(kind) for kind, _, _ in EFFECTS.values()}))
def test_without_the_damage_they_pass(upgraded: Upgraded, kind: str) -> None:
    assert upgraded(int(kind) if kind.isdigit() else kind).verify().problems == ()


def test_a_count_of_tools_that_is_none_is_caught(upgraded: Upgraded) -> None:
    pair = upgraded(15, "UPDATE sessions SET tool_call_count = NULL WHERE rowid = 1")
    check = pair.verify()
    assert check.problems == ()
    assert "counter recounted" in {each.name for each in check.exceptions}
    pair.spoil("UPDATE sessions SET tool_call_count = 99999 WHERE rowid = 1")
    assert any(problem.endswith(": tool_call_count changed") for problem in pair.verify().problems)


# -- odd files that are upgraded rightly ------------------------------------------------------------------------

DEEP = '{"a":' * 989 + "1" + "}" * 989
CHILD = "UPDATE sessions SET parent_session_id = (SELECT id FROM sessions LIMIT 1), model_config = {} WHERE rowid = 2"
BAD = "CAST(x'c328ff' AS TEXT)"
ODD: dict[str, tuple[int, tuple[str, ...]]] = {
    "a marker that is null": (15, (CHILD.format('\'{"a":1,"_delegate_from":null}\''),)),
    "a config that is deep": (15, (CHILD.format(f"'{DEEP}'"),)),
    "the highest id": (
        22,
        ("UPDATE messages SET id = 9223372036854775807 WHERE id = (SELECT max(id) FROM messages)",),
    ),
    "routing entries without a time": (
        22,
        (
            "DROP TABLE gateway_routing",
            "CREATE TABLE gateway_routing (scope TEXT, session_key TEXT, entry_json TEXT, updated_at REAL)",
            "INSERT INTO gateway_routing VALUES ('', 'k', 'a', NULL), ('', 'k', 'b', -3)",
        ),
    ),
    "loose columns": (
        10,
        (
            "ALTER TABLE sessions ADD COLUMN archived TEXT",
            "ALTER TABLE sessions ADD COLUMN pinned",
            "ALTER TABLE sessions ADD COLUMN rewind_count REAL",
        ),
    ),
    "texts that are none": (
        22,
        (
            f"UPDATE messages SET content = {BAD}, tool_name = {BAD} WHERE id = 3",
            f"UPDATE sessions SET model = {BAD}, title = {BAD} WHERE rowid = 2",
            f"INSERT INTO state_meta VALUES ('note', {BAD}), ({BAD}, 'note')",
            f"INSERT INTO sessions (id, source, started_at) VALUES ({BAD}, 'cli', 1)",
            f"INSERT INTO session_model_usage (session_id, model) VALUES ({BAD}, {BAD})",
            f"INSERT INTO gateway_routing VALUES ({BAD}, {BAD}, {BAD}, 1)",
        ),
    ),
    "texts that are none and tokens": (
        15,
        (
            f"UPDATE sessions SET model = {BAD}, input_tokens = 3",
            f"INSERT INTO sessions (id, source, started_at, output_tokens) VALUES ({BAD}, 'cli', 1, 7)",
        ),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_that_is_upgraded_rightly_passes(upgraded: Upgraded, name: str) -> None:
    kind, statements = ODD[name]
    assert upgraded(kind, *statements).verify().problems == ()


def test_settings_without_a_key_are_compared_by_their_number(upgraded: Upgraded) -> None:
    keyless = (
        "PRAGMA legacy_alter_table = ON",
        "CREATE TABLE other AS SELECT * FROM state_meta",
        "DROP TABLE state_meta",
        "ALTER TABLE other RENAME TO state_meta",
        "INSERT INTO state_meta VALUES ('twice', 'a'), ('twice', 'b'), ('twice', 'b')",
    )
    pair = upgraded(23)
    for path in (pair.before, pair.after):
        change(path, pair.driver, *keyless)
    assert not any("row 'twice'" in problem for problem in pair.verify().problems)
    pair.spoil("DELETE FROM state_meta WHERE rowid = (SELECT max(rowid) FROM state_meta WHERE value = 'b')")
    assert any("row 'twice': was removed" in problem for problem in pair.verify().problems)
