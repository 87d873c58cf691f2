"""What a hit looks like."""

import pytest

from hermes_store import ContextMessage, SearchHit, SessionDB
from tests.search.helpers import say

KEYS = [
    "id", "session_id", "role", "snippet", "timestamp", "tool_name", "source", "model", "session_started", "context",
]  # fmt: skip
QUERIES = ["docker", "部署失败", "部署", "ocke"]


@pytest.fixture
def filled(db: SessionDB) -> SessionDB:
    db.create_session("s", "telegram", model="m1")
    db.append_message("s", "assistant", "docker 部署失败", timestamp=12.5)
    return db


@pytest.mark.parametrize("query", QUERIES)
def test_a_hit_has_its_keys_in_order_and_its_values_in_their_types(filled: SessionDB, query: str) -> None:
    (hit,) = filled.search_messages(query)
    session = filled.get_session("s")
    assert session is not None
    assert list(hit) == KEYS
    snippet = hit.pop("snippet")
    assert snippet.replace(">>>", "").replace("<<<", "") == "docker 部署失败"
    assert hit == {
        "id": 1,
        "session_id": "s",
        "role": "assistant",
        "timestamp": 12.5,
        "tool_name": None,
        "source": "telegram",
        "model": "m1",
        "session_started": session["started_at"],
        "context": [{"role": "assistant", "content": "docker 部署失败"}],
    }
    assert isinstance(hit["timestamp"], float)
    assert isinstance(hit["session_started"], float)


@pytest.mark.parametrize("query", QUERIES)
def test_only_the_asked_fields_come_in_the_order_of_every_result(filled: SessionDB, query: str) -> None:
    (hit,) = filled.search_messages(query, fields=["source", "id", "source", "role"])
    assert list(hit.items()) == [("id", 1), ("role", "assistant"), ("source", "telegram")]
    assert filled.search_messages(query, fields={"context"}) == [
        {"context": [{"role": "assistant", "content": "docker 部署失败"}]}
    ]
    assert filled.search_messages(query, fields=[]) == [{}]


def test_the_repository_gives_records(filled: SessionDB) -> None:
    with filled.store.reader() as reader:
        (hit,) = reader.search.messages("docker")
    assert isinstance(hit, SearchHit)
    assert hit.context == (ContextMessage("assistant", "docker 部署失败"),)
    assert (hit.id, hit.snippet, hit.model) == (1, ">>>docker<<< 部署失败", "m1")


def test_a_phrase_is_marked_once_and_words_one_by_one(db: SessionDB) -> None:
    say(db, "restart the docker daemon, then the docker daemon log")
    assert [hit["snippet"] for hit in db.search_messages('"docker daemon"')] == [
        "restart the >>>docker daemon<<<, then the >>>docker daemon<<< log"
    ]
    assert [hit["snippet"] for hit in db.search_messages("log restart")] == [
        ">>>restart<<< the docker daemon, then the docker daemon >>>log<<<"
    ]


def test_a_snippet_holds_forty_words_around_the_match(db: SessionDB) -> None:
    words = [f"w{number}" for number in range(200)]
    say(db, " ".join(words))
    (hit,) = db.search_messages("w100")
    snippet = hit["snippet"]
    assert snippet.startswith("...")
    assert snippet.endswith("...")
    shown = snippet.removeprefix("...").removesuffix("...").split()
    assert len(shown) == 40
    assert ">>>w100<<<" in shown
    assert shown == [">>>w100<<<" if word == "w100" else word for word in words[int(shown[0][1:]) :][:40]]


@pytest.mark.usefixtures("whole_substrings")
def test_a_snippet_of_cjk_text_is_cut_around_the_match(db: SessionDB) -> None:
    say(db, "前" * 200 + "部署失败" + "后" * 200)
    (hit,) = db.search_messages("部署失败")
    assert ">>>部署失败<<<" in hit["snippet"]
    assert len(hit["snippet"]) < 70


@pytest.mark.parametrize(("before", "at"), [(0, 0), (10, 10), (100, 40), (500, 40)])
def test_a_scan_shows_the_text_around_the_first_term(db: SessionDB, before: int, at: int) -> None:
    say(db, "前" * before + "部署" + "后" * 200)
    (hit,) = db.search_messages("部署")
    assert len(hit["snippet"]) == 120
    assert abs(hit["snippet"].index("部署") - at) <= 1


def test_a_scan_shows_the_text_whatever_the_case(db: SessionDB) -> None:
    say(db, "x" * 300 + " Docker 部署 " + "y" * 300)
    (hit,) = db.search_messages("docker 部署")
    assert "Docker 部署" in hit["snippet"]


@pytest.mark.parametrize("query", ["terminal", '"terminal"', "termin*"])
def test_a_hit_in_the_name_of_a_tool_shows_the_name(db: SessionDB, query: str) -> None:
    say(db, "all well", role="tool", tool_name="terminal")
    (hit,) = db.search_messages(query)
    assert (hit["tool_name"], hit["snippet"]) == ("terminal", ">>>terminal<<<")


@pytest.mark.parametrize("query", ["retriever", "检索工具", "检索"])
def test_a_message_without_content_can_be_a_hit(db: SessionDB, query: str) -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "retriever", "arguments": '{"q": "检索工具"}'}}]
    (wanted,) = say(db, None, role="assistant", tool_calls=calls)
    (hit,) = db.search_messages(query)
    assert hit["id"] == wanted
    assert hit["context"] == [{"role": "assistant", "content": ""}]
