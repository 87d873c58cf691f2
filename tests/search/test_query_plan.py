"""Who is asked, and with what words."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_store import connect
from hermes_store.fts.query import Operator, Route, SearchPlan, parse, plan
from tests.support.drivers import installed

CHARACTERS = st.characters(exclude_categories=()) | st.sampled_from("\"*()ANDORT \0\\'-:^+{}.中文字의🎉")
PIECES = st.sampled_from(
    ["AND", "OR", "NOT", '"', "*", "(", ")", "docker", "部署", "\0", "中", "-", "NEAR(", "a:b", "^x"]
)
TEXTS = st.text(CHARACTERS, max_size=80) | st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES).map("".join)


@pytest.mark.parametrize(
    ("query", "route"),
    [
        ("docker", Route.WORDS),
        ('"two words" OR deploy*', Route.WORDS),
        ("a", Route.WORDS),
        ("中文搜索", Route.SUBSTRINGS),
        ("docker 部署失败", Route.SUBSTRINGS),
        ("部署docker", Route.SUBSTRINGS),
        ("中", Route.SCAN),
        ("部署", Route.SCAN),
        ("中文搜索 ok", Route.SCAN),
        ("秃发*", Route.SCAN),
        ("秃发应对*", Route.SUBSTRINGS),
    ],
)
def test_the_route_follows_the_script_and_the_length_of_the_terms(query: str, route: Route) -> None:
    assert plan(query).route is route


@pytest.mark.parametrize(
    ("query", "able", "route"),
    [
        ("docker", {"trigram": False}, Route.WORDS),
        ("中文搜索", {"trigram": False}, Route.SCAN),
        ("中文搜索", {"tool_rows": True}, Route.SCAN),
        ("docker", {"tool_rows": True}, Route.WORDS),
        ("docker", {"words": False}, Route.SCAN),
        ("中文搜索", {"words": False}, Route.SCAN),
    ],
)
def test_the_route_follows_what_the_indexes_can_do(query: str, able: dict[str, bool], route: Route) -> None:
    chosen = plan(query, **able)
    assert chosen.route is route
    assert chosen.reason


@pytest.mark.parametrize(
    ("query", "fallback"), [("docker", True), ("dock OR ploy", True), ("a b", False), ("docker xy", False)]
)
def test_terms_of_three_characters_can_fall_back_on_substrings(query: str, fallback: bool) -> None:
    assert bool(plan(query).fallback) is fallback
    assert plan(query, trigram=False).fallback == ""
    assert plan(query, tool_rows=True).fallback == ""


def test_a_plan_says_why_it_was_chosen() -> None:
    reasons = {plan(query, **able).reason for query, able in REASONED}
    assert len(reasons) == len(REASONED)
    assert all(reasons)


REASONED: list[tuple[str, dict[str, bool]]] = [
    ("", {}),
    ("docker", {}),
    ("中文搜索", {}),
    ("中文", {}),
    ("中文搜索", {"trigram": False}),
    ("中文搜索", {"tool_rows": True}),
    ("docker", {"words": False}),
]


def test_and_binds_tighter_than_or() -> None:
    grouped = [[term.text for term in group] for group in plan("a b OR c AND d NOT e OR f").groups]
    assert grouped == [["a", "b"], ["c", "d", "e"], ["f"]]


@pytest.mark.parametrize("query", ["", "***", "AND NOT", "🎉"])
def test_an_empty_plan_asks_nobody(query: str) -> None:
    chosen = plan(query)
    assert chosen.is_empty
    assert (chosen.match, chosen.fallback) == ("", "")


@given(TEXTS, st.booleans(), st.booleans(), st.booleans())
@example("\ud800", True, True, False)
@settings(deadline=None, max_examples=300)
def test_no_text_raises_and_a_plan_is_a_function_of_its_text(text: str, words: bool, trigram: bool, tool: bool) -> None:
    def made() -> SearchPlan:
        return plan(text, words=words, trigram=trigram, tool_rows=tool)

    chosen = made()
    assert chosen == made()
    assert chosen.is_empty == (not parse(text))
    assert bool(chosen.match) == (chosen.route is not Route.SCAN)
    for group in chosen.groups:
        # Each alternative asks for something; a list of exclusions alone would be an error to an index.
        assert group[0].operator is not Operator.NOT


@pytest.mark.parametrize("driver", installed())
@given(st.lists(TEXTS, min_size=5, max_size=20))
@example(['a"b', "\0", "NOT NOT a", " OR ".join(f"中文{n}字" for n in range(100)), "a" * 3000, "C++ \\ ' : ^ {x}"])
@settings(deadline=None, max_examples=60)
def test_every_match_text_is_accepted_by_a_real_index(driver: str, queries: list[str]) -> None:
    raw = connect(":memory:", driver=driver)
    try:
        raw.execute("CREATE VIRTUAL TABLE words USING fts5(a, b)")
        raw.execute("CREATE VIRTUAL TABLE substrings USING fts5(a, b, tokenize='trigram')")
        for query in queries:
            chosen = plan(query)
            asked = [
                ("words", chosen.match if chosen.route is Route.WORDS else ""),
                ("substrings", chosen.match if chosen.route is Route.SUBSTRINGS else chosen.fallback),
            ]
            for index, match in asked:
                if match:
                    assert raw.execute(f"SELECT a FROM {index} WHERE {index} MATCH ?", (match,)).fetchall() == []
    finally:
        raw.close()
