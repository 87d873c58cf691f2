"""Lists of conversations as people see them (rules LIST-*)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hermes_store.conversation.preview import preview_text
from hermes_store.repositories import Repositories
from hermes_store.repositories.lineage import COMPRESSION, Continuation
from hermes_store.repositories.records import SESSION_COLUMNS, SessionRecord, SessionSummary
from hermes_store.repositories.sessions import SessionFilter

_ID = SESSION_COLUMNS.index("id")
_END_REASON = SESSION_COLUMNS.index("end_reason")

_HEARTBEAT = SESSION_COLUMNS.index("last_activity_at")
_STARTED = SESSION_COLUMNS.index("started_at")
_LAST_READ = SESSION_COLUMNS.index("last_read_at")
_AFTER_LAST = len(SESSION_COLUMNS)  # where newer files have the hash of the prompt

# What a compressed conversation shows of its latest segment; everything else is its first segment's.
_FROM_TIP = tuple(
    SESSION_COLUMNS.index(name)
    for name in (
        "id",
        "ended_at",
        "end_reason",
        "message_count",
        "tool_call_count",
        "title",
        "model",
        "system_prompt",
        "cwd",
        "git_branch",
        "git_repo_root",
    )
)


class SessionLine(NamedTuple):
    """A line of a listing in plain values; `row` is in the order of `SESSION_COLUMNS`."""

    row: tuple[Any, ...]
    preview: str
    last_active: float
    unread: bool
    lineage_root_id: str | None


def list_sessions(
    repos: Repositories,
    wanted: SessionFilter,
    *,
    limit: int | None = 20,
    offset: int = 0,
    project_tips: bool = True,
    include_pinned: bool = False,
) -> list[SessionSummary]:
    """What `list_lines` gives, as records."""
    lines = list_lines(
        repos, wanted, limit=limit, offset=offset, project_tips=project_tips, include_pinned=include_pinned
    )
    return [
        SessionSummary(SessionRecord(*line.row), line.preview, line.last_active, line.unread, line.lineage_root_id)
        for line in lines
    ]


def list_lines(
    repos: Repositories,
    wanted: SessionFilter,
    *,
    limit: int | None = 20,
    offset: int = 0,
    project_tips: bool = True,
    include_pinned: bool = False,
) -> list[SessionLine]:
    """Sessions with preview and last activity, latest start first. Rules LIST-1 to LIST-5.

    A conversation that was compressed appears once, under its latest segment. At most seven statements however many
    rows. With `include_pinned` the pinned ones that are not on the page follow it.
    """
    rows = repos.sessions.page(wanted, limit=limit, offset=offset)
    if include_pinned:
        shown = {row[_ID] for row in rows}
        pinned = repos.sessions.page(replace(wanted, pinned_only=True), limit=-1)
        rows.extend(row for row in pinned if row[_ID] not in shown)
    project = project_tips and not wanted.include_children
    tips = _tips(repos, [row[_ID] for row in rows if row[_END_REASON] == COMPRESSION]) if project else {}
    tip_rows = repos.sessions.rows_of(tips.values()) if tips else {}
    return _lines(repos, [(row, tip_rows.get(tips.get(row[_ID], ""))) for row in rows])


def _lines(repos: Repositories, pairs: Sequence[tuple[tuple[Any, ...], tuple[Any, ...] | None]]) -> list[SessionLine]:
    """The lines for rows, each with the row of its latest segment where it has another one."""
    shown = [(tip or row)[_ID] for row, tip in pairs]
    previews = repos.messages.first_user_texts(shown)
    times = repos.messages.last_times(shown)
    result = []
    for (row, tip), shown_id in zip(pairs, shown, strict=True):
        last_active = last_activity(tip or row, times.get(shown_id))
        line = row
        if tip is not None:
            merged = list(row)
            for position in _FROM_TIP:
                merged[position] = tip[position]
            merged[_AFTER_LAST:] = tip[_AFTER_LAST:]
            line = tuple(merged)
        unread = is_unread(row[_LAST_READ], last_active)
        root = None if tip is None else row[_ID]
        result.append(SessionLine(line, preview_text(previews.get(shown_id)), last_active, unread, root))
    return result


def last_activity(row: tuple[Any, ...], newest_message: float | None) -> float:
    """The later of the heartbeat and the newest message; the start where there is neither. Rule LIST-3."""
    heartbeat: float | None = row[_HEARTBEAT]
    if newest_message is None:
        return float(row[_STARTED]) if heartbeat is None else heartbeat
    return newest_message if heartbeat is None or heartbeat < newest_message else heartbeat


def is_unread(last_read_at: float | None, last_active: float) -> bool:
    """True if something happened after the session was read; one that was never marked is not tracked."""
    return last_read_at is not None and last_active > last_read_at


def _tips(repos: Repositories, roots: list[str]) -> dict[str, str]:
    """The latest segment of each conversation that has more than one. Rule LINEAGE-5."""
    if not roots:
        return {}
    edges = repos.lineage.continuations(roots)
    times = repos.messages.last_times([edge.id for edge in edges]) if _has_siblings(edges) else {}
    below: dict[str, list[Continuation]] = {}
    for edge in edges:
        below.setdefault(edge.parent_id, []).append(edge)
    tips = {}
    for root in roots:
        seen, current = {root}, root
        while current in below:
            following = max(below[current], key=lambda edge: _preference(edge, times))
            if following.id in seen:
                break
            seen.add(following.id)
            current = following.id
        if current != root:
            tips[root] = current
    return tips


def _has_siblings(edges: list[Continuation]) -> bool:
    return len({edge.parent_id for edge in edges}) < len(edges)


def _preference(edge: Continuation, times: dict[str, float | None]) -> tuple[int, float, float, str]:
    """Of several continuations: one that goes on itself, then a live one, then the latest active."""
    live = edge.ended_at is None
    goes_on = not live and edge.end_reason == COMPRESSION
    active = [moment for moment in (times.get(edge.id), edge.last_activity_at) if moment is not None]
    return 2 * goes_on + live, max(active, default=edge.started_at), edge.started_at, edge.id
