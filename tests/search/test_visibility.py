"""Undone text stays undone; what is changed or removed is found as it is now, and a copy is no second original."""

from pathlib import Path

import pytest

from hermes_store import SessionDB, Unit
from tests.search.helpers import EVERY_ROUTE, alike, behind_the_back, flag, found, on_every_route, say
from tests.support.drivers import Engine


def everything_shown(db: SessionDB, query: str, *, include_inactive: bool = False) -> str:
    return repr(db.search_messages(query, limit=-1, include_inactive=include_inactive))


def test_undone_text_is_in_no_hit_and_no_context(db: SessionDB, path: Path, engine: Engine) -> None:
    say(db, "walrus question")
    say(db, "walrus answer", role="assistant")
    undone = say(db, "passphrase is swordfish42 我的密码是旧金山")
    undone += say(db, "noted swordfish42", role="assistant")
    flag(path, engine, undone, active=0, compacted=0)
    for query in ("walrus", "noted OR walrus", "alrus", "passphrase OR walrus"):
        shown = everything_shown(db, query)
        assert "walrus question" in shown
        assert "swordfish42" not in shown
    for query in ("swordfish42", "swordfish", "旧金山", "金山", "密码", "passphrase*", "noted"):
        assert everything_shown(db, query) == "[]"
        assert "swordfish42" in everything_shown(db, query, include_inactive=True)


def test_undone_text_is_in_no_hit_of_a_scan_of_a_store_without_indexes(
    db: SessionDB, path: Path, engine: Engine
) -> None:
    undone = say(db, "walrus one", "walrus two")
    (kept,) = say(db, "walrus three")
    flag(path, engine, undone, active=0, compacted=0)
    with behind_the_back(path, engine) as raw:
        raw.execute("INSERT INTO state_meta(key, value) VALUES ('fts_rebuild_high_water', '3')")
    assert found(db, "walrus") == [kept]
    assert "walrus two" not in everything_shown(db, "walrus")


def test_archived_rows_are_found(db: SessionDB, path: Path, engine: Engine) -> None:
    archived = say(db, f"early {EVERY_ROUTE} chatter")
    say(db, "a summary of it all")
    flag(path, engine, archived, active=0, compacted=1)
    assert on_every_route(lambda query: found(db, query)) == alike(archived)


def test_the_same_words_said_twice_are_two_messages(db: SessionDB) -> None:
    ids = say(db, "zebrafish budget", "an answer", "zebrafish budget")
    assert sorted(found(db, "zebrafish")) == [ids[0], ids[2]]


def test_removed_messages_are_not_found(db: SessionDB) -> None:
    say(db, EVERY_ROUTE, EVERY_ROUTE, session="gone")
    say(db, EVERY_ROUTE, session="cleared")
    kept = say(db, EVERY_ROUTE, session="kept")
    db.delete_session("gone")
    db.clear_messages("cleared")
    assert on_every_route(lambda query: found(db, query)) == alike(kept)


def test_a_changed_message_is_found_by_its_new_text_only(db: SessionDB, path: Path, engine: Engine) -> None:
    (row_id,) = say(db, "before podman 超时重试")
    with behind_the_back(path, engine) as raw:
        raw.execute("UPDATE messages SET content = ? WHERE id = ?", (EVERY_ROUTE, row_id))
    assert on_every_route(lambda query: found(db, query)) == alike([row_id])
    old = ("podman", "odma", "超时重试", "超时")
    assert {query: found(db, query) for query in old} == {query: [] for query in old}


def test_changes_of_the_flags_do_not_disturb_the_indexes(db: SessionDB, path: Path, engine: Engine) -> None:
    (row_id,) = say(db, "docker 部署失败")
    for active, compacted in ((0, 0), (0, 1), (1, 0)):
        flag(path, engine, [row_id], active=active, compacted=compacted)
    assert found(db, "docker") == found(db, "部署失败") == [row_id]


def test_a_message_of_a_unit_that_failed_is_not_found(db: SessionDB) -> None:
    say(db, "walrus")

    def lose(unit: Unit) -> None:
        unit.append("s", "user", "walrus lost 海象先生")
        assert len(unit.search.messages("walrus")) == 2
        raise LookupError

    with pytest.raises(LookupError):
        db.store.write(lose)
    assert found(db, "walrus") == [1]
    assert found(db, "海象先生") == []


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_message_that_becomes_a_tools_leaves_the_index_of_substrings_and_comes_back(
    db: SessionDB, path: Path, engine: Engine, role: str
) -> None:
    (row_id,) = say(db, "docker deployment", role=role)
    with behind_the_back(path, engine) as raw:
        for new_role, by_part in (("tool", []), (role, [row_id])):
            raw.execute("UPDATE messages SET role = ? WHERE id = ?", (new_role, row_id))
            assert found(db, "docker") == [row_id]
            assert found(db, "ocke") == by_part
            raw.execute("UPDATE messages SET content = content || ' again' WHERE id = ?", (row_id,))
            for index in ("messages_fts", "messages_fts_trigram"):
                raw.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    assert found(db, "again") == [row_id]
