"""A long text is quoted in a bounded time and a bounded length (SEARCH-8)."""

import pytest

from hermes_store import SessionDB
from tests.search.helpers import say

REPEATED = "aa3 部署失败 log line with some words here " * 40_000


@pytest.mark.parametrize("query", ["aa3", "部署失败", "words AND line", "log"])
def test_a_word_that_stands_in_a_text_many_thousand_times(db: SessionDB, query: str) -> None:
    say(db, REPEATED)
    (hit,) = db.search_messages(query)
    assert query.split(maxsplit=1)[0] in hit["snippet"]
    assert len(hit["snippet"]) < 1000


def test_a_single_long_word(db: SessionDB) -> None:
    say(db, "x" * 3_000_000)
    (hit,) = db.search_messages("x*")
    assert len(hit["snippet"]) < 2000
