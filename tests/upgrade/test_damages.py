"""Every damaged file that the suite can make is mended by one open, loses nothing, and is used like any other."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.maintenance.optimize import optimize_storage
from tests.snapshots.damaged import DAMAGES
from tests.support.clocks import FakeClock
from tests.support.drivers import installed
from tests.upgrade.files import (
    check_quiet,
    check_sound,
    holders,
    kept,
    module_of,
    turn_by_turn,
    upgrade,
    use,
    values,
)

_USAGE = ("session_model_usage", "session_model_usage_v21", "session_model_usage_legacy_pk")
_COUNTS = ("sessions.message_count", "sessions.tool_call_count")
_MARKERS = ("sessions.model_config",)
_CHAT = ("sessions.session_key", "sessions.chat_id", "sessions.chat_type", "sessions.thread_id")
CHANGED: dict[str, tuple[str, ...]] = {
    "duplicate_titles": ("sessions.title", *_MARKERS),
    "without_rowid_sessions_duplicate_titles": ("sessions.title",),
    "model_config": (*_MARKERS, *_COUNTS),
    "malformed_model_config": (*_MARKERS, *_COUNTS),
    "gateway_json": _CHAT,
    "stamp_0": _MARKERS,
    "usage": (*_USAGE, *_COUNTS),
    "interrupted_usage": _USAGE,
    "failed_usage": _USAGE,
    "orphan_usage": _USAGE,
    "routing": ("gateway_routing",),
    "interrupted_routing": ("gateway_routing", "gateway_routing_legacy_pk"),
    "interrupted_topic": ("telegram_dm_topic_bindings", "telegram_dm_topic_bindings_new"),
    "half_demoted_no_tables": ("state_meta",),
}
"""What an upgrade changes on purpose, by the beginning of a name; the answers in `healed` tell how it has to be."""

FILLED = {"messages.active": 1, "session_model_usage.billing_base_url": ""}
"""What NULL becomes."""

PENDING = {"unfinished_rebuild", "unfinished_rebuild_at_start", "half_demoted_filling"}
"""Rebuilds that somebody else has begun: they go on, and searching scans meanwhile."""

BOUND = {"interrupted_topic_rebuild_created", "interrupted_topic_rebuild_copied"}
"""Files whose sessions are bound to topics by a reference without ON DELETE."""

_OFTEN = {f"null_active_{each}" for each in ("v14_late", "v16_late", "v19_early", "v22_late", "v23_late")}
ALIKE = {name for name in DAMAGES if name.startswith("null_active") and name not in _OFTEN}
"""Files that differ little from others; they are looked at in the full form alone."""

WITHOUT_ROWID = ("sessions.id: TEXT, key 1", "sessions: table")


def _answers(path: Path, driver: str, healed: Iterable[str]) -> dict[str, list[Any]]:
    return {query: values(path, driver, query) for query in healed}


@pytest.mark.parametrize(
    ("name", "driver"),
    turn_by_turn(((name,) for name in DAMAGES), installed(), seldom=ALIKE),
    indirect=["driver"],
)
def test_one_open_mends_it_and_it_is_used_after_that(path: Path, driver: str, name: str) -> None:
    damage = DAMAGES[name]
    facts = damage.make(module_of(driver), path)
    expected = {query: list(answer) for query, answer in facts.healed.items()}
    sound: dict[str, Any] = {
        "keys": damage.sound_keys,
        "index": name not in PENDING,
        "differs": WITHOUT_ROWID if name.startswith("without_rowid") else (),
    }
    changed = [each for begin, tables in CHANGED.items() if name.startswith(begin) for each in tables]
    with kept(path, driver, but=changed, filled=FILLED):
        upgrade(path)
    assert _answers(path, driver, facts.healed) == expected
    first, second = facts.story.session_ids[:2]
    check_sound(path, driver, first, **sound)
    check_quiet(path, driver)
    assert _answers(path, driver, facts.healed) == expected
    with SessionDB(path) as db:
        for words in (facts.story.english, facts.story.chinese):
            for word, owners in list(words.items())[:4]:
                assert set(owners) <= holders(db, word), word
    use(path, first, delete=name not in BOUND)
    check_sound(path, driver, second, **sound)
    check_quiet(path, driver)


@pytest.mark.parametrize("name", sorted(PENDING))
def test_a_rebuild_that_others_began_can_be_ended(path: Path, driver: str, name: str) -> None:
    facts = DAMAGES[name].make(module_of(driver), path)
    upgrade(path)
    use(path, facts.story.session_ids[0])
    with Store.open(path, clock=FakeClock()) as store:
        assert optimize_storage(store, vacuum=False).ok
    check_sound(path, driver, facts.story.session_ids[1])


@pytest.mark.parametrize("name", sorted(BOUND))
def test_a_session_that_is_bound_to_a_topic_can_be_deleted(path: Path, one_driver: str, name: str) -> None:
    facts = DAMAGES[name].make(module_of(one_driver), path)
    with SessionDB(path) as db:
        assert db.delete_session(facts.story.session_ids[0])
    left = values(path, one_driver, "SELECT session_id FROM telegram_dm_topic_bindings")
    assert facts.story.session_ids[0] not in {row[0] for row in left}
