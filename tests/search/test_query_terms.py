"""What a person's text is read as: terms, phrases, stars, operators."""

import pytest

from hermes_store.fts.query import MAX_CHARACTERS, MAX_TERMS, Operator, Term, parse

AND, OR, NOT = Operator.AND, Operator.OR, Operator.NOT


def texts(query: str) -> list[str]:
    return [term.text for term in parse(query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("docker", [Term("docker")]),
        ("  docker \n\t kubernetes ", [Term("docker"), Term("kubernetes")]),
        ("\u3000全角空格\u3000", [Term("全角空格")]),
        ('"exact phrase"', [Term("exact phrase")]),
        ('say"hello there"now', [Term("say"), Term("hello there"), Term("now")]),
        ('""', []),
        ('"a" "b"', [Term("a"), Term("b")]),
        ("retry-after", [Term("retry-after")]),
        ("user@example.com", [Term("user@example.com")]),
        ("src/main.py", [Term("src/main.py")]),
        ("C++", [Term("C++")]),
        ("(docker)", [Term("docker")]),
        ("func(x)", [Term("func"), Term("x")]),
        ("中文\uff0c标点", [Term("中文\uff0c标点")]),
    ],
)
def test_words_and_phrases(query: str, expected: list[Term]) -> None:
    assert list(parse(query)) == expected


@pytest.mark.parametrize(
    ("query", "text", "prefix"),
    [
        ("deploy*", "deploy", True),
        ("deploy***", "deploy", True),
        ("*deploy", "deploy", False),
        ("**deploy**", "deploy", True),
        ("dep*loy", "dep*loy", False),
        ('"two words"*', "two words", True),
        ('"two words*"', "two words*", False),
        ("秃发*", "秃发", True),
        ('"秃发"*', "秃发", True),
    ],
)
def test_a_star_behind_a_term_makes_it_a_prefix(query: str, text: str, prefix: bool) -> None:
    assert list(parse(query)) == [Term(text, prefix=prefix)]


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("a b", AND),
        ("a AND b", AND),
        ("a OR b", OR),
        ("a NOT b", NOT),
        ("a AND OR b", OR),
        ("a OR AND b", AND),
        ("a AND AND b", AND),
        ("a AND NOT b", NOT),
        ("a OR NOT b", NOT),
        ("a NOT AND b", NOT),
        ("a AND(b)", AND),
        ('a NOT"b"', NOT),
    ],
)
def test_operators_tie_a_term_to_what_stands_before_it(query: str, operator: Operator) -> None:
    assert list(parse(query)) == [Term("a"), Term("b", operator)]


@pytest.mark.parametrize(
    "query", ["AND a", "NOT a", "OR a", "AND NOT a", "OR OR a", "a AND", "a NOT", "a AND OR", "(OR a"]
)
def test_operators_that_tie_nothing_are_left_out(query: str) -> None:
    assert list(parse(query)) == [Term("a")]


@pytest.mark.parametrize("word", ["and", "or", "not", "And", "NEAR", "ANDROID", "NOTE", "OR_x", "NOT-foo"])
def test_only_the_three_words_in_capitals_are_operators(word: str) -> None:
    assert list(parse(f"a {word} b")) == [Term("a"), Term(word), Term("b")]


def test_a_quoted_operator_is_a_word() -> None:
    assert list(parse('a "AND" b')) == [Term("a"), Term("AND"), Term("b")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"unfinished phrase', ["unfinished", "phrase"]),
        ('docker"', ["docker"]),
        ('foo" bar', ["foo", "bar"]),
        ('"a b" c "d', ["a b", "c", "d"]),
        ('"', []),
        ('"""', []),
    ],
)
def test_an_unpaired_quote_is_a_space(query: str, expected: list[str]) -> None:
    assert texts(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "\u3000",
        "*",
        "***",
        '"*"',
        "()",
        "(((",
        "...",
        "-",
        "_",
        "AND",
        "NOT OR",
        "!?",
        "🎉",
        "👍🏽 🎉",
        "\uff0c。",
        "\0",
        '"\0"',
    ],
)
def test_text_without_letters_and_digits_holds_nothing_to_look_for(query: str) -> None:
    assert parse(query) == ()


def test_emoji_and_punctuation_beside_words_do_not_disturb_them() -> None:
    assert texts("docker 🎉 ... - failed!") == ["docker", "failed!"]


@pytest.mark.parametrize(
    ("query", "expected"), [("a\0b", ["a b"]), ('"a\0b"', ["a b"]), ("\0docker\0", ["docker"]), ("a \0 b", ["a", "b"])]
)
def test_a_nul_separates_and_never_reaches_an_index(query: str, expected: list[str]) -> None:
    assert texts(query) == expected


def test_only_the_first_characters_of_an_endless_text_are_read() -> None:
    assert texts("a" * 10_000) == ["a" * MAX_CHARACTERS]
    assert texts('"' + "b" * 10_000 + '"') == ["b" * (MAX_CHARACTERS - 1)]


def test_at_most_sixty_four_terms_are_read() -> None:
    words = [f"w{number}" for number in range(200)]
    assert texts(" ".join(words)) == words[:MAX_TERMS]
    assert MAX_TERMS == 64


@pytest.mark.parametrize("piece", ["AND ", '"', "(", "*", '" ', "a OR ", '"a"*'])
def test_ten_thousand_characters_of_syntax_are_read_as_few_terms(piece: str) -> None:
    assert len(parse(piece * 10_000)) <= MAX_TERMS


@pytest.mark.parametrize(
    ("text", "cjk"),
    [
        ("部署", True),
        ("docker部署", True),
        ("かな", True),
        ("한국", True),
        ("々", True),
        ("docker", False),
        ("naïve", False),
    ],
)
def test_a_term_knows_whether_it_holds_cjk(text: str, cjk: bool) -> None:
    assert Term(text).has_cjk is cjk
