"""The line that says what a session is about (rule LIST-4)."""

import pytest
from hypothesis import given

from hermes_store.conversation.preview import preview_text
from tests.unit.strategies import any_text

PREFIX = "[IMPORTANT: The user has invoked the "
LOADED = " The full skill content is loaded below.]"
INSTRUCTION = "The user has provided the following instruction alongside the skill invocation: "


@pytest.mark.parametrize(
    ("content", "preview"),
    [
        (None, ""),
        ("", ""),
        ("hello", "hello"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 60 + "..."),
        ("x" * 200, "x" * 60 + "..."),
        (" \n lead\r\nnew line", "lead  new line"),
        ("tab\tkept", "tab\tkept"),
        ("   " + "y" * 62, "y" * 60),
        ("z" * 60 + "  tail", "z" * 60 + "..."),
        ("z" * 60 + "   tail", "z" * 60),
        ("部" * 61, "部" * 60 + "..."),
        ("🎉" * 61, "🎉" * 60 + "..."),
        ('\x00json:[{"type": "text"}]', ""),
    ],
)
def test_the_beginning_on_one_line(content: str | None, preview: str) -> None:
    assert preview_text(content) == preview


@pytest.mark.parametrize(
    ("content", "preview"),
    [
        (f'{PREFIX}"plan" skill.{LOADED}\n\nbody\n\n{INSTRUCTION}fix  the\ntitle leak', "/plan — fix the title leak"),
        (f'{PREFIX}"/plan" skill.{LOADED}\n\n{INSTRUCTION}go', "/plan — go"),
        (f'{PREFIX}"plan" skill.{LOADED}\n\nbody', "/plan"),
        (f'{PREFIX}"plan" skill.{LOADED} {INSTRUCTION}first {INSTRUCTION}second', "/plan — second"),
        (f'{PREFIX}"plan" skill.{LOADED} {INSTRUCTION}a\n\n[Runtime note: x]', "/plan — a [Runtime note: x]"),
        (f'{PREFIX}"/a /b" skill bundle,{LOADED}\nUser instruction: do it', "/a /b"),
        (f'{PREFIX}"plan" skill.{LOADED} {INSTRUCTION}use a skill bundle, please', "/plan"),
        (f"{PREFIX}plan skill.{LOADED} {INSTRUCTION}alone", "alone"),
        (f"{PREFIX}nameless thing", f"{PREFIX}nameless thing"[:60].strip()),
        (f'{PREFIX}"plan" skill.{LOADED} {INSTRUCTION}' + "w" * 80, "/plan — " + "w" * 52 + "..."),
        (f'{PREFIX.lower()}"plan" skill.', f'{PREFIX.lower()}"plan" skill.'),
        (f'  {PREFIX}"plan" skill.', f'{PREFIX}"plan" skill.'),
    ],
)
def test_a_skill_expansion_shows_as_its_command(content: str, preview: str) -> None:
    assert preview_text(content) == preview


@given(any_text.map(lambda text: text * 8))
def test_any_text_gives_one_short_line(content: str) -> None:
    preview = preview_text(content)
    assert "\n" not in preview
    assert "\r" not in preview
    assert len(preview) <= 63


@given(any_text, any_text)
def test_any_skill_expansion_gives_one_short_line(name: str, instruction: str) -> None:
    preview = preview_text(f'{PREFIX}"{name}" skill.{LOADED} {INSTRUCTION}{instruction * 4}')
    assert "\n" not in preview
    assert len(preview) <= 63
