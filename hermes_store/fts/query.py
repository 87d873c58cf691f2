"""The query language: from what a person typed to a plan (rules SEARCH-1 to SEARCH-4). Pure functions, none raises.

A text is read into terms and operators once, and every route renders the same reading. So a quote, a star or an
operator means the same whichever index answers, and no text makes an index report a syntax error: each term is handed
over as a quoted string.
"""

import json
import re
from dataclasses import dataclass
from enum import Enum

from hermes_store.text import scrub

MAX_CHARACTERS = 2048
MAX_TERMS = 64
TRIGRAM = 3
"""Characters that a term needs to be found by the trigram index."""

_TOKEN = re.compile(r'"([^"]*)"(\*?)|([^\s"()]+)|([()])')
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_OPERATORS = frozenset({"AND", "OR", "NOT"})


class Route(str, Enum):
    """Who answers a query."""

    WORDS = "words"  # the index of whole words
    SUBSTRINGS = "substrings"  # the trigram index: any three characters and more
    SCAN = "scan"  # every message is looked at


class Operator(str, Enum):
    """How a term is tied to what stands before it."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"


@dataclass(frozen=True, slots=True)
class Term:
    """A word or a quoted phrase. `prefix`: words that begin with it count too."""

    text: str
    operator: Operator = Operator.AND
    prefix: bool = False

    @property
    def has_cjk(self) -> bool:
        """True if Chinese, Japanese or Korean characters are in it."""
        return _CJK.search(self.text) is not None


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How a query is answered, and why so.

    `groups`: alternatives, each a list of terms that all have to match or (NOT) must not. `match`: the same for the
    index of the route; empty for a scan. `fallback`: what the trigram index is asked when the words find nothing.
    """

    route: Route
    reason: str
    groups: tuple[tuple[Term, ...], ...]
    match: str = ""
    fallback: str = ""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to look for."""
        return not self.groups


def parse(text: str) -> tuple[Term, ...]:
    """The terms of a query. Operators are AND, OR and NOT in capitals; those that tie nothing are left out.

    Of several operators in a row NOT wins, else the last. An unpaired quote is a space. At most 64 terms are read.
    """
    terms: list[Term] = []
    pending: list[Operator] = []
    cut = scrub(text[:MAX_CHARACTERS])
    if cut.count('"') % 2:
        position = cut.rindex('"')
        cut = f"{cut[:position]} {cut[position + 1 :]}"
    for found in _TOKEN.finditer(cut):
        phrase, phrase_star, word, _ = found.groups()
        if word in _OPERATORS:
            pending.append(Operator(word))
            continue
        raw = phrase if phrase is not None else word
        if raw is None:
            continue
        prefix = bool(phrase_star) if phrase is not None else raw.endswith("*")
        cleaned = raw.strip() if phrase is not None else raw.strip("*")
        # A NUL would end the string for some tokenizers.
        cleaned = cleaned.replace("\0", " ").strip()
        if not any(character.isalnum() for character in cleaned):
            continue
        terms.append(Term(cleaned, _joined(pending) if terms else Operator.AND, prefix))
        pending = []
        if len(terms) == MAX_TERMS:
            break
    return tuple(terms)


def _joined(operators: list[Operator]) -> Operator:
    if Operator.NOT in operators:
        return Operator.NOT
    return operators[-1] if operators else Operator.AND


def plan(
    text: str, *, words: bool = True, trigram: bool = True, past_nul: bool = True, tool_rows: bool = False
) -> SearchPlan:
    """Choose who answers. Rule SEARCH-2.

    `words`, `trigram`: which indexes exist and are complete. `past_nul`: the trigram index holds structured messages
    whole. `tool_rows`: tool messages are asked for by name; the trigram index has none.
    """
    terms = parse(text)
    groups = _group(terms)
    if not groups:
        return SearchPlan(Route.SCAN, "the query holds nothing to look for", ())
    if not words:
        return SearchPlan(Route.SCAN, "there is no complete index of words", groups)
    long_enough = all(len(term.text) >= TRIGRAM for term in terms)
    substrings = _match(groups, with_prefix=False) if trigram and long_enough and not tool_rows else ""
    if any(term.has_cjk for term in terms):
        if substrings and past_nul:
            return SearchPlan(Route.SUBSTRINGS, "CJK text of three characters and more", groups, substrings)
        if tool_rows:
            reason = "CJK text in tool messages is in no index"
        elif not trigram:
            reason = "there is no complete index of substrings"
        elif not past_nul:
            reason = "this SQLite indexes no substrings of structured messages"
        else:
            reason = "a term beside CJK text has fewer than three characters"
        return SearchPlan(Route.SCAN, reason, groups)
    return SearchPlan(Route.WORDS, "words", groups, _match(groups, with_prefix=True), fallback=substrings)


def _group(terms: tuple[Term, ...]) -> tuple[tuple[Term, ...], ...]:
    """Alternatives of terms, as AND binds tighter than OR."""
    groups: list[list[Term]] = []
    for term in terms:
        if term.operator is Operator.OR or not groups:
            groups.append([term])
        else:
            groups[-1].append(term)
    return tuple(tuple(group) for group in groups)


def _match(groups: tuple[tuple[Term, ...], ...], *, with_prefix: bool) -> str:
    """The text that an index is asked. NOT stands behind its group: FTS5 takes it as a pair's second half."""
    rendered = []
    for group in groups:
        wanted = " AND ".join(_quoted(term, with_prefix) for term in group if term.operator is not Operator.NOT)
        unwanted = " OR ".join(_quoted(term, with_prefix) for term in group if term.operator is Operator.NOT)
        rendered.append(f"({wanted}) NOT ({unwanted})" if unwanted else f"({wanted})")
    return " OR ".join(rendered)


def _quoted(term: Term, with_prefix: bool) -> str:  # noqa: FBT001 - one flag, one caller
    star = "*" if term.prefix and with_prefix else ""
    spellings = [f'"{text}"{star}' for text in (each.replace('"', '""') for each in spellings_of(term))]
    return spellings[0] if len(spellings) == 1 else f"({' OR '.join(spellings)})"


def spellings_of(term: Term) -> list[str]:
    """How a term can stand in the stored text.

    As it is; as escapes within JSON, which is stored in ASCII and in which upper and lower case have different ones;
    and as escapes of escapes, since the arguments of a tool call are JSON within JSON.
    """
    if term.text.isascii():
        return [term.text]
    cases = (term.text, term.text.lower(), term.text.upper(), term.text.title())
    once = [json.dumps(each)[1:-1] for each in cases]
    return list(dict.fromkeys((term.text, *once, *(json.dumps(each)[1:-1] for each in once))))
