"""Words as people type and write them: glued to CJK, with hyphens, dots and slashes, in any case."""

import pytest

from hermes_store import SessionDB
from tests.search.helpers import found, say


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("send the Retry-After header", ["retry-after", "Retry-After", "retry", '"retry-after header"', "retry-aft*"]),
        ("released v2.10.3 today", ["v2.10.3", '"v2.10.3"', "v2.10", "v2*"]),
        ("open src/main.py please", ["src/main.py", "main.py", "src/main", "src", "src/ma*"]),
        ("written in C++ mostly", ["C++", "c++", '"C++ mostly"']),
        ("ported to C# later", ["C#"]),
        ("mail user@example.com", ["user@example.com", "example.com", "user"]),
        ("see https://example.com/a?b=c&d=1", ["https://example.com/a?b=c&d=1", "example.com/a"]),
        ("it's 61.2% of $5, don't", ["61.2%", "$5", "don't", "it's"]),
        ("run --no-vacuum -f .env", ["--no-vacuum", ".env", "-f"]),
        ("set key=value in {a: b}", ["key=value", "key:value", "{a: b}", "a:b"]),
        ("def __init__(self): foo_bar", ["__init__", "foo_bar", "foo_bar()", "__init__(self)"]),
        ("path\\to\\file.txt", ["path\\to\\file.txt", "file.txt"]),
        ("std::vector<int> x->y", ["std::vector<int>", "x->y"]),
        ("127.0.0.1:8080 at 12:30", ["127.0.0.1:8080", "12:30", "8080"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_terms_are_found_as_they_are_typed(db: SessionDB, text: str, queries: list[str]) -> None:
    say(db, "nothing of the kind")
    (wanted,) = say(db, text)
    say(db, "nor here")
    assert {query: found(db, query) for query in queries} == {query: [wanted] for query in queries}


@pytest.mark.parametrize(
    ("text", "false_friend", "query"),
    [
        ("retry-after", "after the retry", "retry-after"),
        ("v2.10.3", "v2 and 10 and 3", "v2.10.3"),
        ("src/main.py", "main src py", "src/main.py"),
        ("foo_bar", "bar foo", "foo_bar"),
        ("部署失败", "失败部署", "部署失败"),
        ("部署", "部。署", "部署"),
    ],
)
def test_the_parts_of_a_term_stand_together(db: SessionDB, text: str, false_friend: str, query: str) -> None:
    say(db, false_friend)
    (wanted,) = say(db, text)
    assert found(db, query) == [wanted]


@pytest.mark.parametrize(
    "query",
    ["docker", "Docker", "部署docker", "docker失败", "部署docker失败", "docker 部署", "docker OR 没有", "dock*"],
)
def test_a_word_glued_to_cjk_is_found(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, "今天部署docker失败")
    assert found(db, query) == [wanted]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("中", [1, 2]),
        ("文", [1]),
        ("中 文", [1]),
        ("中 OR 字", [1, 2, 3]),
        ("中 NOT 文", [2]),
        ("字", [3]),
        ("か", [4]),
        ("글", [5]),
        ("中文 docker", [1]),
        ("docker 字", [3]),
        ("docker NOT 字", [1]),
    ],
)
def test_single_characters_and_mixed_scripts(db: SessionDB, query: str, expected: list[int]) -> None:
    say(db, "中文 docker", "中国人", "汉字docker", "かな", "한글")
    assert sorted(found(db, query)) == expected


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("DOCKER deployment", "docker"),
        ("docker deployment", "DocKer"),
        ("DOCKER", "ocke"),
        ("Docker 部署", "docker 部署"),
        ("docker 部署失败", "DOCKER 部署失败"),
        ("docker 部", "DOCKER 部"),
        ("部署E404失败", "e404"),
        ("部署E404失败", "署e404"),
    ],
)
def test_the_case_of_ascii_letters_is_ignored(db: SessionDB, text: str, query: str) -> None:
    (wanted,) = say(db, text)
    assert found(db, query) == [wanted]


@pytest.mark.parametrize("query", ["{word}", "{word} 部署失败", "{word} 部"], ids=["words", "substrings", "scan"])
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ÄRGER", "ÄRGER"),
        ("Ärger", "Ärger"),
        ("ÄRGER", "ärger"),
        ("ärger", "ÄRGER"),
        ("ЁЛКА", "ёлка"),
        ("ёлка", "ЁЛКА"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
    ],
)
def test_the_case_of_other_letters_is_ignored(db: SessionDB, query: str, text: str, word: str) -> None:
    (wanted,) = say(db, f"{text} 部署失败")
    assert found(db, query.format(word=word)) == [wanted]


@pytest.mark.parametrize(
    ("text", "query"), [("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9"), ("caf\u00e9", "cafe")]
)
def test_composed_and_decomposed_words_find_each_other(db: SessionDB, text: str, query: str) -> None:
    (wanted,) = say(db, f"at the {text} now")
    assert found(db, query) == [wanted]


@pytest.mark.parametrize("query", ["party", "🎉 party", '"party 🎉"', "party🎉", "部署🎉", "🎉部署"])
def test_emoji_beside_words(db: SessionDB, query: str) -> None:
    (wanted,) = say(db, "🎉party🎉部署🎉 party 🎉")
    assert found(db, query) == [wanted]
