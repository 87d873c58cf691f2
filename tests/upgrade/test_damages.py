"""Every damaged file that the suite can make is mended by one open, loses nothing, and is used like any other."""

from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB, Store
from hermes_store.maintenance.optimize import optimize_storage
from tests.snapshots.damaged import DAMAGES
from tests.support.clocks import FakeClock
from tests.upgrade.files import check_quiet, check_sound, holders, kept, module_of, upgrade, use, values

NAMES = pytest.mark.parametrize("name", DAMAGES)

_USAGE = ("session_model_usage", "session_model_usage_v21", "session_model_usage_legacy_pk")
_ROUTING = ("gateway_routing", "gateway_routing_legacy_pk")
_TOPICS = ("telegram_dm_topic_bindings", "telegram_dm_topic_bindings_new")
_CHAT = ("session_key", "chat_id", "chat_type", "thread_id")
LOOKED_AT_OTHERWISE: dict[str, tuple[str, ...]] = {
    "duplicate_titles": ("sessions.title",),
    "without_rowid_sessions_duplicate_titles": ("sessions.title",),
    "model_config": ("sessions.model_config",),
    "malformed_model_config": ("sessions.model_config",),
    "gateway_json": tuple(f"sessions.{name}" for name in _CHAT),
    "usage": _USAGE,
    "interrupted_usage": _USAGE,
    "failed_usage": _USAGE,
    "orphan_usage": _USAGE,
    "routing": _ROUTING,
    "interrupted_routing": _ROUTING,
    "interrupted_topic": _TOPICS,
}
"""What an upgrade changes on purpose, by the beginning of the name; the answers in `healed` tell how it has to be."""

PENDING = {"unfinished_rebuild", "unfinished_rebuild_at_start", "half_demoted_filling"}
"""Rebuilds that somebody else has begun: they go on, and searching scans meanwhile."""

BOUND = {"interrupted_topic_rebuild_created", "interrupted_topic_rebuild_copied"}
"""Files whose sessions are bound to topics by a reference without ON DELETE."""

WITHOUT_ROWID = ("sessions.id: TEXT, key 1", "sessions: table")


def _aside(name: str) -> tuple[str, ...]:
    return tuple(each for begin, tables in LOOKED_AT_OTHERWISE.items() if name.startswith(begin) for each in tables)


def _differs(name: str) -> tuple[str, ...]:
    return WITHOUT_ROWID if name.startswith("without_rowid") else ()


def _answers(path: Path, driver: str, healed: Any) -> dict[str, list[Any]]:
    return {query: values(path, driver, query) for query in healed}


@NAMES
def test_one_open_mends_it_and_the_next_has_nothing_to_do(path: Path, driver: str, name: str) -> None:
    damage = DAMAGES[name]
    facts = damage.make(module_of(driver), path)
    expected = {query: list(answer) for query, answer in facts.healed.items()}
    with kept(path, driver, but=_aside(name), filled={"messages.active": 1}):
        upgrade(path)
    assert _answers(path, driver, facts.healed) == expected
    owner = facts.story.session_ids[0]
    check_sound(path, driver, owner, keys=damage.sound_keys, index=name not in PENDING, differs=_differs(name))
    check_quiet(path, driver)
    assert _answers(path, driver, facts.healed) == expected
    with SessionDB(path) as db:
        for words in (facts.story.english, facts.story.chinese):
            for word, owners in words.items():
                assert set(owners) <= holders(db, word), word


@NAMES
def test_it_is_used_after_that(path: Path, driver: str, name: str) -> None:
    damage = DAMAGES[name]
    facts = damage.make(module_of(driver), path)
    upgrade(path)
    use(path, facts.story.session_ids[0], delete=name not in BOUND)
    owner = facts.story.session_ids[1]
    check_sound(path, driver, owner, keys=damage.sound_keys, index=name not in PENDING, differs=_differs(name))
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
