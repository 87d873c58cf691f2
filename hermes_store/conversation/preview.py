"""One line that tells a person what a session is about (rule LIST-4). Pure functions."""

import re

PREVIEW_CHARACTERS = 60
_CUT = 63  # characters taken before trimming

SKILL_PREFIX = "[IMPORTANT: The user has invoked the "
"""How the expansion of a skill begins; its text is scaffolding, not what the user wrote."""

SKILL_CHARACTERS = 800
"""Characters of a skill expansion that a preview looks at."""

_SKILL_LOADED = "The full skill content is loaded below.]"
_SKILL_INSTRUCTION = "The user has provided the following instruction alongside the skill invocation: "
_BUNDLE = " skill bundle,"
_QUOTED_NAME = re.compile(r'"([^"]*)"')


def preview_text(content: object) -> str:
    """At most 60 characters and an ellipsis of the first user message; a skill expansion shows as its command."""
    if not isinstance(content, str) or content.startswith("\0"):
        return ""
    flat = content.replace("\n", " ").replace("\r", " ")
    if flat.startswith(SKILL_PREFIX):
        described = _describe_skill(flat)
        if described:
            return _limit(described)
    return _limit(flat[:_CUT].strip())


def _limit(text: str) -> str:
    return text if len(text) <= PREVIEW_CHARACTERS else text[:PREVIEW_CHARACTERS] + "..."


def _describe_skill(text: str) -> str:
    named = _QUOTED_NAME.match(text, len(SKILL_PREFIX))
    name = named.group(1).strip() if named else ""
    label = name if name.startswith("/") or not name else f"/{name}"
    instruction = ""
    if _BUNDLE not in text and _SKILL_LOADED in text and _SKILL_INSTRUCTION in text:
        instruction = " ".join(text.rsplit(_SKILL_INSTRUCTION, 1)[1].split())
    return " \N{EM DASH} ".join(part for part in (label, instruction) if part)
