"""Messages made of parts, and the arguments of tool calls, are found by the words that a person reads in them."""

import json
from typing import Any

import pytest

from hermes_store import SessionDB
from tests.search.helpers import found, say
from tests.support.drivers import Engine, indexes_past_nul

PARTS = [
    {"type": "text", "text": "which animal is this, a Quokka? 多模态内容在这里 Straße"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
]
QUERIES = [
    "quokka",
    "animal this",
    '"animal is this"',
    "quok",
    "多模态内容",
    "内容在这里",
    "多模态",
    "模态",
    "多",
    "quokka 模态",
    "Straße",
]


def test_a_message_of_parts_is_found(db: SessionDB, engine: Engine) -> None:
    say(db, "something else")
    (wanted,) = say(db, PARTS)
    # Parts of ASCII words within structured messages are in the index of substrings alone.
    queries = [query for query in QUERIES if query != "quok" or indexes_past_nul(engine.driver)]
    assert {query: found(db, query) for query in queries} == {query: [wanted] for query in queries}


def test_exclusions_see_into_parts(db: SessionDB) -> None:
    say(db, PARTS)
    queries = ["多模态 NOT quokka", "模态 NOT quokka", "quokka NOT 模态", "quokka NOT animal"]
    assert {query: found(db, query) for query in queries} == {query: [] for query in queries}


@pytest.mark.parametrize("query", ["quokka", "多模态", "模态"])
def test_a_hit_in_parts_has_a_snippet(db: SessionDB, query: str) -> None:
    say(db, PARTS)
    (hit,) = db.search_messages(query)
    assert hit["snippet"]


def as_typed(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


@pytest.mark.parametrize("dump", [as_typed, json.dumps], ids=["characters", "escapes"])
def test_the_arguments_of_tool_calls_are_found(db: SessionDB, dump: Any) -> None:
    arguments = dump({"command": "grep -n 超时重试策略 deploy.yaml"})
    calls = [{"id": "c", "type": "function", "function": {"name": "terminal", "arguments": arguments}}]
    (wanted,) = say(db, "let me look", role="assistant", tool_calls=calls)
    queries = ["grep", "deploy.yaml", "超时重试策略", "重试策略", "超时", "grep 超时", "terminal"]
    assert {query: found(db, query) for query in queries} == {query: [wanted] for query in queries}


@pytest.mark.parametrize("query", ["grüße", "Grüße", "GRÜSSE", "ÜBER", "über", "ёлка", "ЁЛКА 多"])
def test_case_is_ignored_in_parts_too(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, [{"type": "text", "text": "Grüße GRÜSSE über Ёлка 多模态"}])
    assert found(db, query) == [wanted]


@pytest.mark.parametrize("query", ['"C:\\tmp\\x"', "C:\\tmp", "tmp"])
def test_backslashes_in_parts_are_found(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, [{"type": "text", "text": "see C:\\tmp\\x"}])
    assert found(db, query) == [wanted]


def test_a_message_with_a_nul_is_found_on_both_sides_of_it(db: SessionDB) -> None:
    (wanted,) = say(db, "before\0behind")
    assert found(db, "before") == found(db, "behind") == found(db, "before\0behind") == [wanted]
