"""Docstrings and docs/behaviour speak of the same rules."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULE = re.compile(
    r"\b(?:HOME|DRIVER|FILE|PRAGMA|MODE|ERR|WRITE|READ|SCHEMA|FTS|SEARCH|CODEC|REPLAY|LIST|LINEAGE|SESSION|TITLE|APPEND"
    r"|DELETE|USAGE|EXPORT|INFO|CLI|COMPAT|TEST|MIGRATE|RUNTIME)-\d+\b"
)


def _written() -> list[str]:
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/behaviour").glob("*.md")))
    return re.findall(r"\*\*([A-Z]+-\d+)\*\*", text)


def _cited() -> set[str]:
    found: set[str] = set()
    for folder in ("hermes_store", "migrations", "tests"):
        for module in (ROOT / folder).rglob("*.py"):
            if module != Path(__file__):
                found.update(RULE.findall(module.read_text(encoding="utf-8")))
    return found


def test_every_rule_that_is_cited_is_written() -> None:
    assert _cited() - set(_written()) == set()


def test_no_rule_is_written_twice() -> None:
    written = _written()
    assert sorted(written) == sorted(set(written))
    assert len(written) > 60
