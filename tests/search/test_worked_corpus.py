"""Fifty-eight queries over ten messages in four scripts, with and without the index of substrings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import SessionDB
from tests.search.helpers import found, lame_driver
from tests.support.drivers import Engine

CALLS = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"cmd":"ls -la"}'}}]
PICTURE = [{"type": "text", "text": "multimodal pineapple 中文"}, {"type": "image_url", "image_url": {"url": "x"}}]
MESSAGES: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("s1", "user", "How do we fix the docker deployment?", {}),
    ("s1", "assistant", "部署docker失败了\uff0c需要修改youer服务端配置", {"tool_calls": CALLS}),
    ("s1", "tool", "docker deployment log: 部署失败 error E404", {"tool_name": "terminal"}),
    ("s1", "user", "中文搜索很重要", {}),
    ("s2", "user", "大别山项目和桐柏山项目", {}),
    ("s2", "assistant", "foo_bar and chat-send v2.0 in src/main.py", {}),
    ("s2", "user", PICTURE, {}),
    ("s2", "user", "大人々と人々 二〇二六年", {}),
    ("s2", "assistant", "한국어 검색 테스트", {}),
    ("s2", "user", "red 红 apple; Banana 绿", {}),
]

# What both kinds of store answer.
EVERYWHERE: list[tuple[str, list[int]]] = [
    ("docker", [1, 3]),
    ("docker deployment", [1, 3]),
    ("deploy*", [1, 3]),
    ('"docker deployment"', [1, 3]),
    ("docker OR pineapple", [7, 1, 3]),
    ("docker NOT fix", [3]),
    ("terminal", [3, 2]),
    ("ls", [2]),
    ("c1", [2]),
    ("E404", [3]),
    ("foo_bar", [6]),
    ("foo", [6]),
    ("chat-send", [6]),
    ("v2.0", [6]),
    ("src/main.py", [6]),
    ("main.py", [6]),
    ("multimodal", [7]),
    ("image_url", [7]),
    ("u4e2d", [7]),
    ("部署", [3, 2]),
    ("失败", [3, 2]),
    ("服务端", [2]),
    ("修改youer服务端", [2]),
    ("部署docker", [2]),
    ('"部署docker"', [2]),
    ("docker 部署", [3, 2]),
    ('"部署 docker" foo', []),
    ("中", [7, 4]),
    ("中文", [7, 4]),
    ("中文搜索", [4]),
    ("搜索 中文", [4]),
    ("搜索 AND 中文", [4]),
    ("大别山 OR 桐柏山", [5]),
    ("大别山 AND 桐柏山", [5]),
    ("大别山 NOT 桐柏山", []),
    ("大别山 and 桐柏山", []),
    ("大别山 or 桐柏山", []),
    ("大别山*", [5]),
    ("项目 NOT 大别山", []),
    ("人々", [8]),
    ("大人々", [8]),
    ("二〇二六", [8]),
    ("二六", [8]),
    ("〇二", [8]),
    ("한국", [9]),
    ("국어", [9]),
    ("검색 테스트", [9]),
    ("红 NOT apple", []),
    ("红 banana", [10]),
    ("绿", [10]),
    ("\uff0c需要", [2]),
    ("\uff0c", []),
    ("banana 绿", [10]),
    ("zzz", []),
]

# Parts of words are the business of the index of substrings, which holds no tool messages: with it and without it.
SUBSTRINGS: list[tuple[str, list[int], list[int]]] = [
    ("dock", [1, 2], []),
    ("eploy", [1], []),
    ("youer", [2], []),
    ("部署失败", [], [3]),
]

SNIPPETS = [
    ("docker", "How do we fix the >>>docker<<< deployment?"),
    ("docker deployment", "How do we fix the >>>docker<<< >>>deployment<<<?"),
    ("dock", "How do we fix the >>>dock<<<er deployment?"),
    ("deploy*", "How do we fix the docker >>>deployment<<<?"),
    ("eploy", "How do we fix the docker d>>>eploy<<<ment?"),
    ('"docker deployment"', "How do we fix the >>>docker deployment<<<?"),
    ("docker NOT fix", ">>>docker<<< deployment log: 部署失败 error E404"),
    ("terminal", ">>>terminal<<<"),
    ("E404", "docker deployment log: 部署失败 error >>>E404<<<"),
    ("youer", "部署docker失败了\uff0c需要修改>>>youer<<<服务端配置"),
    ("foo_bar", ">>>foo_bar<<< and chat-send v2.0 in src/main.py"),
    ("chat-send", "foo_bar and >>>chat-send<<< v2.0 in src/main.py"),
    ("src/main.py", "foo_bar and chat-send v2.0 in >>>src/main.py<<<"),
    ("main.py", "foo_bar and chat-send v2.0 in src/>>>main.py<<<"),
    ("服务端", "部署docker失败了\uff0c需要修改youer>>>服务端<<<配置"),
    ("中文搜索", ">>>中文搜索<<<很重要"),
    ("大别山 OR 桐柏山", ">>>大别山<<<项目和>>>桐柏山<<<项目"),
    ("二〇二六", "大人々と人々 >>>二〇二六<<<年"),
    # A scan sets no marks.
    ("中", "中文搜索很重要"),
    ("红 banana", "red 红 apple; Banana 绿"),
]


def fill(db: SessionDB) -> SessionDB:
    db.create_session("s1", "cli", model="m1")
    db.create_session("s2", "telegram", model="m2")
    for row_id, (session, role, content, fields) in enumerate(MESSAGES, start=1):
        assert db.append_message(session, role, content, timestamp=float(row_id), **fields) == row_id
    return db


@pytest.fixture
def corpus(db: SessionDB) -> SessionDB:
    return fill(db)


@pytest.fixture
def corpus_without_substrings(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionDB]:
    lame_driver(monkeypatch, has_trigram=False)
    with SessionDB(path) as db:
        yield fill(db)


@pytest.mark.usefixtures("whole_substrings")
def test_every_query_finds_its_messages(corpus: SessionDB) -> None:
    expected = {**dict(EVERYWHERE), **{query: with_index for query, with_index, _ in SUBSTRINGS}}
    assert {query: found(corpus, query) for query in expected} == expected


def test_without_the_index_of_substrings_only_parts_of_words_are_missed(corpus_without_substrings: SessionDB) -> None:
    expected = {**dict(EVERYWHERE), **{query: without for query, _, without in SUBSTRINGS}}
    assert {query: found(corpus_without_substrings, query) for query in expected} == expected


def test_without_any_index_everything_that_contains_the_text_is_found(
    engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lame_driver(monkeypatch, has_fts5=False, has_trigram=False)
    with SessionDB(path) as db:
        fill(db)
        missed = {query: expected for query, expected in EVERYWHERE if not set(expected) <= set(found(db, query))}
        assert missed == {}
        answers = {
            query: found(db, query) for query in ("docker", "dock", "youer", "部署失败", "docker NOT fix", "zzz")
        }
        assert answers == {
            "docker": [3, 2, 1],
            "dock": [3, 2, 1],
            "youer": [2],
            "部署失败": [3],
            "docker NOT fix": [3, 2],
            "zzz": [],
        }


@pytest.mark.usefixtures("whole_substrings")
def test_snippets_of_the_first_hits(corpus: SessionDB) -> None:
    shown = {query: corpus.search_messages(query, fields=["snippet"]) for query, _ in SNIPPETS}
    expected = dict(SNIPPETS)
    first = {query: hits[0]["snippet"] for query, hits in shown.items() if query != "中"}
    assert first == {query: expected[query] for query in first}
    assert shown["中"][1]["snippet"] == expected["中"]
