"""Damage to rows: NULL flags, titles held twice, broken JSON, rows that old releases left to be filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .build import VARIANTS, build_version
from .facts import STAMPS, Answer, Damage, Facts, add, facts, message, names_in_master, session, small_file
from .history import ACTIVE, TITLE_INDEX, USAGE_SIX_KEYS, create, step_of
from .story import Row
from .writing import raw


def null_active(version: int, variant: str | None) -> Damage:
    """`messages.active` without NOT NULL and default, as an old reconcile added it, and NULL in some rows."""

    def make(driver: Any, path: Path) -> Facts:
        edit = lambda text: text.replace(ACTIVE, "active INTEGER")  # noqa: E731
        story = build_version(path, driver, version, variant=variant, edit=edit)
        with raw(path, driver) as connection:
            live = [row[0] for row in connection.execute("SELECT id FROM messages WHERE active = 1 ORDER BY id")]
            nulled = live[::7]
            connection.executemany("UPDATE messages SET active = NULL WHERE id = ?", [(each,) for each in nulled])
        healed: dict[str, Answer] = {
            "SELECT count(*) FROM messages WHERE active IS NULL": [(0,)],
            "SELECT id FROM messages WHERE active = 1 ORDER BY id": [(each,) for each in live],
        }
        return facts(path, driver, story, healed, ids=nulled)

    return Damage(make)


def duplicate_titles(version: int) -> Damage:
    """No unique index over titles, and titles that several sessions hold; the last one inserted keeps each."""

    def make(driver: Any, path: Path) -> Facts:
        story = small_file(path, driver, version)
        held = (("X", 300.0), ("X", 100.0), ("X", 200.0), ("Y", 50.0), (None, 60.0), (None, 70.0))
        rows = [
            session(f"titled-{place}", title=title, started_at=begun, message_count=1)
            for place, (title, begun) in enumerate(held)
        ]
        with raw(path, driver) as connection:
            connection.execute(f"DROP INDEX {TITLE_INDEX}")
        add(path, driver, {"sessions": rows, "messages": [message(row["id"], "a walrus") for row in rows]})
        healed: dict[str, Answer] = {
            "SELECT title FROM sessions WHERE id LIKE 'titled-%' ORDER BY rowid": [
                (None,), (None,), ("X",), ("Y",), (None,), (None,),
            ],
            names_in_master(TITLE_INDEX): [(TITLE_INDEX,)],
        }  # fmt: skip
        return facts(path, driver, story, healed, ids=[row["id"] for row in rows], cleared=["titled-0", "titled-1"])

    return Damage(make)


def _tagging_rows() -> list[tuple[Row, str | None, bool]]:
    """Sessions of version 15 before delegate children were tagged: the row, its config afterwards, has a tool row."""
    tagged, orphan = '{"_delegate_from":"P"}', '{"_delegate_from":"__orphaned__"}'

    def child(name: str, after: str | None, parent: str = "P", **columns: Any) -> tuple[Row, str | None, bool]:
        return session(name, parent_session_id=parent, **columns), after, False

    def root(name: str, after: str | None, *, tool: bool = True, **columns: Any) -> tuple[Row, str | None, bool]:
        return session(name, **({"message_count": 2} | columns)), after, tool

    return [
        root("P", None, title="plain parent"),
        root("P-branched", None, end_reason="branched", ended_at=50.0, started_at=1.0, title="branched parent"),
        root("P-branched-open", None, end_reason="branched", started_at=1.0, title="never ended"),
        root("P-compressed", None, end_reason="compression", ended_at=50.0, title="compressed parent"),
        child("child", tagged),
        child("child-titled", tagged, title="a title is no shelter"),
        child("child-config", '{"a":1,"_delegate_from":"P"}', model_config='{"a":1}'),
        child("child-marked", '{"_delegate_from":"zz"}', model_config='{"_delegate_from":"zz"}'),
        child("child-branch", '{"_branched_from":"P"}', model_config='{"_branched_from":"P"}'),
        child("child-after-branch", None, "P-branched", started_at=60.0),
        child("child-before-branch", '{"_delegate_from":"P-branched"}', "P-branched", started_at=40.0),
        child("child-open-branch", '{"_delegate_from":"P-branched-open"}', "P-branched-open", started_at=60.0),
        child("child-compressed", None, "P-compressed"),
        child("child-nobody", '{"_delegate_from":"nobody"}', "nobody"),
        child("child-list", "[]", model_config="[]"),
        root("root", orphan),
        root("root-titled", None, title="kept"),
        root("root-25", orphan, message_count=25),
        root("root-26", None, message_count=26),
        root("root-uncounted", None, message_count=None),
        root("root-no-tool", None, tool=False),
        root("root-parent", None),
        child("child-of-root", '{"_delegate_from":"root-parent"}', "root-parent"),
        root("root-branch", '{"_branched_from":"x"}', model_config='{"_branched_from":"x"}'),
    ]


def model_config(*, malformed: bool) -> Damage:
    """A file of version 15 with every kind of session that the tagging of delegate children tells apart."""

    def make(driver: Any, path: Path) -> Facts:
        story = small_file(path, driver, 15)
        told = _tagging_rows()
        if malformed:
            told.append((session("malformed", parent_session_id="P", model_config="{bad"), "{bad", False))
        rows = [row | {"user_id": "tagging"} for row, _, _ in told]
        messages = [message(row["id"], "a heron", role="tool" if tool else "user") for row, _, tool in told]
        add(path, driver, {"sessions": rows, "messages": messages})
        expected = sorted((row["id"], after) for row, after, _ in told)
        query = "SELECT id, model_config FROM sessions WHERE user_id = 'tagging' ORDER BY id"
        return facts(path, driver, story, {query: expected}, expected=dict(expected))

    return Damage(make, sound_keys=False)


_ORIGIN: Final[Row] = {"platform": "telegram", "chat_id": "55", "chat_name": "Müller 部署", "thread_id": 7}
_ENTRIES: Final[dict[str, Any]] = {
    "_version": {"session_id": "g-full", "chat_type": "wrong"},
    "key-full": {
        "session_id": "g-full",
        "session_key": "entry-key",
        "chat_type": "dm",
        "display_name": "Mira",
        "origin": _ORIGIN,
        "expiry_finalized": True,
    },
    "key-list": ["no", "object"],
    "key-empty": {"session_id": "", "chat_type": "dm"},
    "key-none": {"chat_type": "dm"},
    "key-kept": {"session_id": "g-kept", "session_key": "new", "chat_type": "dm", "origin": _ORIGIN},
    "key-flushed": {"session_id": "g-flushed", "memory_flushed": 1, "origin": "no object"},
    "key-nobody": {"session_id": "nobody", "chat_type": "dm"},
    "key-number": {"session_id": 42, "chat_type": "group", "expiry_finalized": False},
    "key-unbindable": {"session_id": "g-unbindable", "chat_type": {"no": "text"}},
    "key-after": {"session_id": "g-after", "chat_type": "channel"},
}


def gateway_json(driver: Any, path: Path) -> Facts:
    """A file of version 17 beside `sessions/sessions.json`, from which a later version fills columns of sessions.

    `known["after"]` is the session of the entry behind the one whose value is no text, with its columns if that
    entry is applied.
    """
    story = small_file(path, driver, 17)
    kept = {"session_key": "old-key", "chat_id": "1", "chat_type": "group", "thread_id": "2"}
    names = ("g-full", "g-flushed", "42", "g-unbindable", "g-after", "g-absent")
    rows = [session(name, user_id="gateway") for name in names]
    add(path, driver, {"sessions": [*rows, session("g-kept", user_id="gateway", **kept)]})
    folder = path.parent / "sessions"
    folder.mkdir(exist_ok=True)
    (folder / "sessions.json").write_text(json.dumps(_ENTRIES), encoding="utf-8")
    columns = "session_key, chat_id, chat_type, thread_id, display_name, origin_json, expiry_finalized"
    origin = json.dumps(_ORIGIN)
    expected = [
        ("42", "key-number", None, "group", None, None, None, 0),
        ("g-absent", None, None, None, None, None, None, 0),
        ("g-flushed", "key-flushed", None, None, None, None, None, 1),
        ("g-full", "entry-key", "55", "dm", "7", "Mira", origin, 1),
        ("g-kept", "old-key", "1", "group", "2", None, origin, 0),
    ]
    query = (
        f"SELECT id, {columns} FROM sessions"
        " WHERE user_id = 'gateway' AND id NOT IN ('g-unbindable', 'g-after') ORDER BY id"
    )
    after = ("g-after", "key-after", None, "channel", None, None, None, 0)
    json_path = folder / "sessions.json"
    return facts(path, driver, story, {query: expected}, json_path=json_path, after=after, unbindable="g-unbindable")


_USAGE_QUERY: Final = (
    "SELECT session_id, model, billing_provider, billing_base_url, billing_mode, task, api_call_count, input_tokens,"
    " output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, estimated_cost_usd, actual_cost_usd,"
    " cost_status, cost_source, first_seen, last_seen"
    " FROM session_model_usage WHERE session_id LIKE 'used-%' ORDER BY session_id, model"
)


def usage_backfill(*, existing: bool) -> Damage:
    """A file of version 19, before usage had rows; with `existing` a private build has made the table already."""

    def make(driver: Any, path: Path) -> Facts:
        story = small_file(path, driver, 19)
        billed = {"billing_provider": "p", "billing_base_url": "u", "billing_mode": "b"}
        costs = {"estimated_cost_usd": 0.5, "actual_cost_usd": 0.25, "cost_status": "actual", "cost_source": "none"}
        tokens = {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4}
        nothing = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens", "message_count"))
        times = {"started_at": 100.0, "ended_at": 900.0}
        full = billed | costs | tokens | times | {"model": "m1", "api_call_count": 6, "reasoning_tokens": 5}
        sessions = [
            session("used-full", **full),
            session("used-bare", **(nothing | {"reasoning_tokens": 7, "started_at": 200.0, "api_call_count": None})),
            session("used-calls", api_call_count=3, estimated_cost_usd=1.0, model="m1"),
            session("used-never", model="m1"),
        ]
        rows: list[tuple[Any, ...]] = [
            ("used-bare", "unknown", "", "", "", "", 0, 0, 0, 0, 0, 7, 0.0, 0.0, None, None, 200.0, 200.0),
            ("used-full", "m1", "p", "u", "b", "", 6, 1, 2, 3, 4, 5, 0.5, 0.25, "actual", "none", 100.0, 900.0),
        ]
        add(path, driver, {"sessions": sessions})
        if existing:
            kept = {"session_id": "used-full", "model": "m1", "input_tokens": 99, "first_seen": 1.0} | billed
            other = {"session_id": "used-bare", "model": "other", "input_tokens": 99, "first_seen": 1.0}
            with raw(path, driver) as connection:
                connection.execute(create("session_model_usage", USAGE_SIX_KEYS))
            add(path, driver, {"session_model_usage": [kept, other]})
            plain = (0, 99, 0, 0, 0, 0, 0.0, 0.0, None, None, 1.0, None)
            rows = [
                ("used-bare", "other", "", "", "", "", *plain),
                rows[0],
                ("used-full", "m1", "p", "u", "b", "", *plain),
            ]
        return facts(path, driver, story, {_USAGE_QUERY: rows})

    return Damage(make)


def _restamped(version: int, variant: str | None, statements: tuple[str, ...], stamps: Answer) -> Damage:
    def make(driver: Any, path: Path) -> Facts:
        story = build_version(path, driver, version, variant=variant)
        with raw(path, driver) as connection:
            for statement in statements:
                connection.execute(statement)
        return facts(path, driver, story, {STAMPS: stamps}, version=version)

    return Damage(make)


LOST_STAMPS: Final = (1, 9, 10, 15, 19, 20, 21, 22, 23)

DAMAGES: Final[dict[str, Damage]] = {
    **{
        f"null_active_v{version}{f'_{variant}' if variant else ''}": null_active(version, variant)
        for version, variant in VARIANTS
        if step_of(version, variant) >= 145
    },
    "duplicate_titles": duplicate_titles(10),
    "duplicate_titles_v23": duplicate_titles(23),
    "model_config": model_config(malformed=False),
    "malformed_model_config": model_config(malformed=True),
    "gateway_json": Damage(gateway_json),
    "usage_backfill": usage_backfill(existing=False),
    "usage_backfill_existing_rows": usage_backfill(existing=True),
    **{
        f"lost_stamp_{what}_v{version}": _restamped(version, None, (loss,), [(23,)])
        for version in LOST_STAMPS
        for what, loss in (("row", "DELETE FROM schema_version"), ("table", "DROP TABLE schema_version"))
    },
    **{
        f"stamp_{stamp}_on_v22": _restamped(22, "late", (f"UPDATE schema_version SET version = {stamp}",), [(after,)])
        for stamp, after in ((0, 23), (24, 24), (99, 99))
    },
    "two_stamps_22_first": _restamped(22, None, ("INSERT INTO schema_version VALUES (5)",), [(23,), (23,)]),
    "two_stamps_5_first": _restamped(5, None, ("INSERT INTO schema_version VALUES (22)",), [(23,), (23,)]),
}
