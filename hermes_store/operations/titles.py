"""Giving and finding titles (rules TITLE-*)."""

from hermes_store.errors import DuplicateTitle
from hermes_store.repositories import Repositories
from hermes_store.repositories.titles import base_of, number_of, sanitize_title
from hermes_store.text import scrub_if_text


def set_title(repos: Repositories, session_id: str, title: object) -> bool:
    """Name a session; an empty title takes its name away. Returns whether the session exists. Rules TITLE-1 to TITLE-3.

    A title moves along when the holder is an earlier segment of the same compressed conversation. Raises
    DuplicateTitle, with its owner, when any other session holds it; InvalidValue above 100 characters.
    """
    session_id = scrub_if_text(session_id)
    cleaned, holder = refuse_title(repos, session_id, title)
    if holder is not None:
        repos.titles.set(holder, None)
    return repos.titles.set(session_id, cleaned)


def refuse_title(repos: Repositories, session_id: str, title: object) -> tuple[str | None, str | None]:
    """The title as it would be stored, and the earlier segment that would give it up, if any.

    Raises what `set_title` raises; nothing is changed.
    """
    cleaned = sanitize_title(title)
    owner = None if cleaned is None else repos.titles.owner(cleaned)
    if cleaned is None or owner is None or owner == session_id:
        return cleaned, None
    if owner not in repos.lineage.continued_from(session_id):
        raise DuplicateTitle(cleaned, owner)
    return cleaned, owner


def resolve_title(repos: Repositories, title: str) -> str | None:
    """The session that a title means: the latest `<title> #n` if there is one, else the exact one. Rule TITLE-4."""
    variants = repos.titles.variants(title)
    if variants:
        return variants[0][0]
    owner = repos.titles.owner(title)
    return owner if owner is not None or title.isascii() else repos.titles.spelled_otherwise(title)


def next_title(repos: Repositories, title: str) -> str:
    """The title itself if nobody of its lineage has it, else its base with the next free number. Rule TITLE-5."""
    base = base_of(title)
    taken = [variant for _, variant, _ in repos.titles.variants(base)]
    if repos.titles.owner(base) is None and not taken:
        return base
    highest = max([1, *(number for each in taken if (number := number_of(each)) is not None)])
    return f"{base} #{highest + 1}"
