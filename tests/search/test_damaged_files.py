"""Files that only damage or other programs can make: nothing is hidden, searching goes on."""

from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.search.helpers import behind_the_back, say
from tests.support.drivers import Engine

TEXT = "zebra 部署失败 docker"


@pytest.mark.parametrize("query", ["zebra", "部署失败", "部署"])
@pytest.mark.parametrize(
    "damage", ["DELETE FROM {index}_data", "UPDATE {index}_data SET block = x'ffffffffffffffff' WHERE id = 10"]
)
def test_a_damaged_index_is_searched_around(db: SessionDB, path: Path, engine: Engine, damage: str, query: str) -> None:
    ids = say(db, *([TEXT] * 5))
    db.close()
    with behind_the_back(path, engine) as raw:
        for index in ("messages_fts", "messages_fts_trigram"):
            raw.execute(damage.format(index=index))
    with SessionDB(path, read_only=True) as reading:
        assert sorted(hit["id"] for hit in reading.search_messages(query)) == ids


def test_messages_without_a_session_leave_no_holes_in_pages(db: SessionDB, path: Path, engine: Engine) -> None:
    ids = say(db, *(["zebra and much else"] * 6))
    with behind_the_back(path, engine) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        for number in range(4):
            raw.execute(
                "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('gone', 'user', 'zebra', ?)",
                (float(number),),
            )
    pages = [[hit["id"] for hit in db.search_messages("zebra", limit=5, offset=offset)] for offset in (0, 5, 10)]
    assert [len(page) for page in pages] == [5, 1, 0]
    assert {each for page in pages for each in page} == set(ids)


def test_a_text_that_is_no_utf8_does_not_hide_the_others(db: SessionDB, path: Path, engine: Engine) -> None:
    ids = say(db, "first", "second")
    with behind_the_back(path, engine) as raw:
        raw.execute("UPDATE messages SET content = CAST(x'ff61' AS TEXT) WHERE id = ?", (ids[0],))
    assert [row["content"] for row in db.get_messages("s")] == ["\ufffda", "second"]
    listed = db.list_sessions_rich()
    exported = db.export_all()
    assert len(listed) == 1
    assert [message["content"] for message in exported[0]["messages"]] == ["\ufffda", "second"]
