"""Removing sessions: one conversation, or all that a retention rule selects (rules DELETE-*)."""

import glob
import logging
from collections.abc import Collection, Iterable
from pathlib import Path

from hermes_store.repositories import Repositories
from hermes_store.text import scrub_if_text

log = logging.getLogger(__name__)

SECONDS_PER_DAY = 86_400.0


def deletion_targets(repos: Repositories, session_id: str) -> list[str]:
    """What deleting this id removes; empty for an unknown id. Rule DELETE-1.

    Itself first, then the other segments of its conversation and the delegate runs of all of them, sorted.
    """
    session_id = scrub_if_text(session_id)
    if not repos.sessions.existing([session_id]):
        return []
    everything: set[str] = set()
    found = {session_id}
    while found - everything:
        everything |= repos.lineage.conversation_of(found)
        # A delegate run may have been compressed itself, and have started others.
        found = everything | repos.lineage.delegates_of(everything)
    return [session_id, *sorted(everything - {session_id})]


def delete_conversation(repos: Repositories, session_id: str, *, expected: Collection[str] | None = None) -> list[str]:
    """Remove a conversation with all its messages; returns the removed ids. Rules DELETE-1 and DELETE-2.

    `expected`: what the caller has shown to a person; when something else would be removed by now, nothing is.
    """
    targets = deletion_targets(repos, session_id)
    if not targets or (expected is not None and {scrub_if_text(each) for each in expected} != set(targets)):
        return []
    remove(repos, targets)
    return targets


def remove(repos: Repositories, session_ids: Collection[str]) -> int:
    """Remove these sessions with messages and bound topics; children outside the set lose their parent."""
    repos.topics.unbind(session_ids)
    repos.messages.delete_of(session_ids)
    return repos.sessions.delete(session_ids)


def select_expired(repos: Repositories, *, before: float, source: str | None = None) -> list[str]:
    """Ended sessions whose last message, or start, is older than `before` (Unix seconds). Rule DELETE-3.

    Pinned and archived ones are kept, and a compressed conversation is selected whole or not at all.
    """
    ended = repos.sessions.ended()
    times = repos.messages.last_times([row[0] for row in ended])
    matching = set()
    for session_id, started_at, session_source, pinned, archived in ended:
        newest = times.get(session_id)
        last_active = newest if newest is not None else started_at
        if last_active < before and not pinned and not archived and (not source or session_source == source):
            matching.add(session_id)
    for conversation in repos.lineage.conversations():
        if not conversation <= matching:
            matching -= conversation
    return sorted(matching)


def remove_session_files(folder: Path, session_ids: Iterable[str]) -> None:
    """Remove the transcript files of sessions that are gone; a file that cannot be removed is logged and left."""
    if not folder.is_dir():
        return
    for session_id in session_ids:
        if not session_id or "\0" in session_id or Path(session_id).name != session_id:
            continue  # no file of ours is called so, and a path must not lead out of the folder
        dumps = folder.glob(f"request_dump_{glob.escape(session_id)}_*.json")
        for file in (folder / f"{session_id}.json", folder / f"{session_id}.jsonl", *dumps):
            try:
                file.unlink(missing_ok=True)
            except OSError as exc:
                log.warning("a transcript file could not be removed: %s", exc.strerror)
