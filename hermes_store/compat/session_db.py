"""`SessionDB`: the interface of Hermes Agent's session store over this library (rules COMPAT-*).

Every method coerces its arguments, calls one thing below, and shapes the result. What the interface is going to have in
all is the table in `hermes_store.compat.methods`.
"""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from hermes_store.compat.shapes import (
    check_search_fields,
    hit_dicts,
    line_dict,
    message_dicts,
    session_dict,
)
from hermes_store.compat.storage import StorageMethods
from hermes_store.compat.usage import UsageMethods
from hermes_store.database.waiting import RETRY_MAX, RETRY_MIN
from hermes_store.database.writer import CHECKPOINT_EVERY
from hermes_store.errors import EmptyQuery, InvalidValue, NotBuilt
from hermes_store.operations.append import clear_messages
from hermes_store.operations.conversation import read_conversation
from hermes_store.operations.delete import delete_conversation, remove_session_files
from hermes_store.operations.listing import list_lines
from hermes_store.operations.sessions import create_session, session_values
from hermes_store.operations.titles import next_title, resolve_title, set_title
from hermes_store.portability.export import export_one, export_sessions
from hermes_store.repositories.search import SearchFilter
from hermes_store.repositories.sessions import SessionFilter
from hermes_store.repositories.titles import MAX_TITLE_LENGTH, sanitize_title


def _names(values: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidValue(f"a list of names is needed, not the text {values!r}")
    return tuple(values) if values is not None else ()


class SessionDB(UsageMethods, StorageMethods):
    """The session store of a profile, as Hermes Agent's code calls it.

    `db_path`: the file, by default `state.db` of the home in force at this moment. `read_only`: nothing on disk is
    changed. Raises what `Store.open` raises; all of it is also an error of the standard library's `sqlite3`.
    Rule COMPAT-1.
    """

    MAX_TITLE_LENGTH = MAX_TITLE_LENGTH

    # How long a write waits, as Hermes Agent's code names it; the number of tries follows from the patience (WRITE-3).
    _WRITE_MAX_RETRIES = 15
    _WRITE_RETRY_MIN_S = RETRY_MIN
    _WRITE_RETRY_MAX_S = RETRY_MAX
    _CHECKPOINT_EVERY_N_WRITES = CHECKPOINT_EVERY

    # -- lifecycle ------------------------------------------------------------------------------------------

    def create_session(
        self,
        session_id: str,
        source: str,
        *,
        model: str | None = None,
        model_config: Any = None,
        system_prompt: str | None = None,
        user_id: str | None = None,
        session_key: str | None = None,
        chat_id: str | None = None,
        chat_type: str | None = None,
        thread_id: str | None = None,
        parent_session_id: str | None = None,
        cwd: str | None = None,
        profile_name: str | None = None,
        git_repo_root: str | None = None,
    ) -> str:
        """Create a session, or fill what an existing one lacks; returns the id. Rules SESSION-1 and SESSION-2.

        Raises ForeignKeyFailed for an unknown parent, ConstraintFailed for a source that is None, TypeError for a
        `model_config` that JSON cannot hold.
        """
        fields = {
            "model": model,
            "model_config": model_config,
            "system_prompt": system_prompt,
            "user_id": user_id,
            "session_key": session_key,
            "chat_id": chat_id,
            "chat_type": chat_type,
            "thread_id": thread_id,
            "parent_session_id": parent_session_id,
            "cwd": cwd,
            "profile_name": profile_name,
            "git_repo_root": git_repo_root,
        }
        values = session_values(session_id, source, fields, self._now())
        self._write_transcript(lambda unit: create_session(unit, values))
        return session_id

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """The session with exactly this id, all columns; None if there is none. Queued usage is stored first."""
        self.flush_token_counts()
        with self._reader() as reader:
            row = reader.sessions.find_row(session_id)
        return None if row is None else session_dict(row)

    def end_session(self, session_id: str, end_reason: str | None) -> None:
        """End a live session; the first reason stays, an unknown id does nothing. Rule SESSION-3."""
        now = self._now()
        self._write(lambda unit: unit.sessions.end(session_id, end_reason, now))

    def reopen_session(self, session_id: str) -> None:
        """Make a session live again; an unknown id does nothing. Rule SESSION-4."""
        self._write(lambda unit: unit.sessions.reopen(session_id))

    # -- titles ---------------------------------------------------------------------------------------------

    @staticmethod
    def sanitize_title(title: object) -> str | None:
        """A title as it would be stored; None for an empty one. Raises InvalidValue, TypeError. Rule TITLE-1."""
        return sanitize_title(title)

    def set_session_title(self, session_id: str, title: str | None) -> bool:
        """Name a session; returns whether it exists. Rules TITLE-1 to TITLE-3.

        Raises DuplicateTitle (a ValueError) when another session holds the title, InvalidValue above 100 characters.
        """
        sanitize_title(title)
        return self._write(lambda unit: set_title(unit, session_id, title))

    def get_session_title(self, session_id: str) -> str | None:
        """The title of a session; None if it has none or is unknown."""
        with self._reader() as reader:
            return reader.titles.find(session_id)

    def resolve_session_by_title(self, title: str) -> str | None:
        """The session that a title means, the latest `<title> #n` first; None if there is none. Rule TITLE-4."""
        with self._reader() as reader:
            return resolve_title(reader, title)

    def get_next_title_in_lineage(self, base_title: str) -> str:
        """The title itself if it is free, else its base with the next number. Rule TITLE-5."""
        with self._reader() as reader:
            return next_title(reader, base_title)

    # -- messages -------------------------------------------------------------------------------------------

    def append_message(
        self,
        session_id: str,
        role: str,
        content: Any = None,
        tool_name: str | None = None,
        tool_calls: Any = None,
        tool_call_id: str | None = None,
        token_count: int | None = None,
        finish_reason: str | None = None,
        reasoning: str | None = None,
        reasoning_content: str | None = None,
        reasoning_details: Any = None,
        codex_reasoning_items: Any = None,
        codex_message_items: Any = None,
        platform_message_id: str | None = None,
        observed: bool = False,  # noqa: FBT001, FBT002
        effect_disposition: str | None = None,
        timestamp: Any = None,
        api_content: str | None = None,
        display_kind: str | None = None,
        display_metadata: Any = None,
        compression_lock_holder: str | None = None,
    ) -> int:
        """Store one message and raise the counters; returns the row's id. Rules APPEND-1 to APPEND-3.

        Raises ForeignKeyFailed for an unknown session, SessionCompressionInProgressError after five seconds of a
        foreign lock, CompressionSessionClosedError, TypeError for what JSON cannot hold. Nothing is written then.
        """
        fields = {
            "content": content,
            "tool_name": tool_name,
            "tool_calls": tool_calls,
            "tool_call_id": tool_call_id,
            "token_count": token_count,
            "finish_reason": finish_reason,
            "reasoning": reasoning,
            "reasoning_content": reasoning_content,
            "reasoning_details": reasoning_details,
            "codex_reasoning_items": codex_reasoning_items,
            "codex_message_items": codex_message_items,
            "platform_message_id": platform_message_id,
            "observed": observed,
            "effect_disposition": effect_disposition,
            "timestamp": timestamp,
            "api_content": api_content,
            "display_kind": display_kind,
            "display_metadata": display_metadata,
        }
        return self._append(session_id, role, fields, lock_holder=compression_lock_holder)

    def get_messages(
        self,
        session_id: str,
        include_inactive: bool = False,  # noqa: FBT001, FBT002
        limit: int | None = None,
        offset: int = 0,
    ) -> list[dict[str, Any]]:
        """Messages of a session in insertion order, live ones only unless asked otherwise. Rule READ-4."""
        with self._reader() as reader:
            rows = reader.messages.rows(session_id, include_inactive=bool(include_inactive), limit=limit, offset=offset)
        return message_dicts(rows)

    def get_messages_as_conversation(
        self,
        session_id: str,
        include_ancestors: bool = False,  # noqa: FBT001, FBT002
        include_inactive: bool = False,  # noqa: FBT001, FBT002
        repair_alternation: bool = False,  # noqa: FBT001, FBT002
        include_row_ids: bool = False,  # noqa: FBT001, FBT002
    ) -> list[dict[str, Any]]:
        """The messages in the model's format. Rules REPLAY-1 to REPLAY-5."""
        with self._reader() as reader:
            return read_conversation(
                reader,
                session_id,
                include_ancestors=include_ancestors,
                include_inactive=bool(include_inactive),
                repair_alternation=repair_alternation,
                include_row_ids=include_row_ids,
            )

    def clear_messages(self, session_id: str) -> None:
        """Remove every message of a session and set its counters to 0. Rule APPEND-4."""
        self._write(lambda unit: clear_messages(unit, session_id))

    # -- search ---------------------------------------------------------------------------------------------

    def search_messages(
        self,
        query: str,
        source_filter: Iterable[str] | None = None,
        exclude_sources: Iterable[str] | None = None,
        role_filter: Iterable[str] | None = None,
        limit: int | None = 20,
        offset: int = 0,
        sort: str | None = None,
        include_inactive: bool = False,  # noqa: FBT001, FBT002
        fields: Collection[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Messages that match, best first; an empty query finds nothing. Rules SEARCH-1 to SEARCH-7.

        Raises TypeError or InvalidValue for bad `fields`, before anything else is looked at.
        """
        keys = check_search_fields(fields)
        if not query:
            return []
        order = sort.strip().lower() if isinstance(sort, str) else None
        wanted = SearchFilter(
            sources=None if source_filter is None else _names(source_filter),
            exclude_sources=_names(exclude_sources),
            roles=_names(role_filter),
            include_inactive=include_inactive,
            sort=order if order in ("newest", "oldest") else None,
        )
        with self._reader() as reader:
            try:
                hits = reader.search.hit_rows(query, wanted, limit=limit, offset=offset, with_context="context" in keys)
            except EmptyQuery:
                return []
        return hit_dicts(hits, keys)

    # -- listing --------------------------------------------------------------------------------------------

    def list_sessions_rich(
        self,
        source: str | None = None,
        sources: Iterable[str] | None = None,
        exclude_sources: Iterable[str] | None = None,
        cwd_prefix: str | None = None,
        limit: int | None = 20,
        offset: int = 0,
        include_children: bool = False,  # noqa: FBT001, FBT002
        min_message_count: int = 0,
        project_compression_tips: bool = True,  # noqa: FBT001, FBT002
        order_by_last_active: bool = False,  # noqa: FBT001, FBT002
        include_archived: bool = False,  # noqa: FBT001, FBT002
        archived_only: bool = False,  # noqa: FBT001, FBT002
        id_query: str | None = None,
        search_query: str | None = None,
        compact_rows: bool = False,  # noqa: FBT001, FBT002
        include_pinned: bool = False,  # noqa: FBT001, FBT002
        session_key: str | None = None,
    ) -> list[dict[str, Any]]:
        """Conversations with preview and last activity, latest start first. Rules LIST-1 to LIST-5.

        Queued usage is stored first. Raises NotBuilt for an order or a query that this release does not have yet.
        """
        _refuse_planned(
            "list_sessions_rich",
            order_by_last_active=order_by_last_active or None,
            id_query=id_query or None,
            search_query=search_query or None,
        )
        wanted = SessionFilter(
            source=source or None,
            sources=_names(sources),
            exclude_sources=_names(exclude_sources),
            session_key=session_key,
            cwd_prefix=cwd_prefix or None,
            min_message_count=min_message_count,
            include_children=include_children,
            include_archived=include_archived,
            archived_only=archived_only,
        )
        self.flush_token_counts()
        with self._reader() as reader:
            lines = list_lines(
                reader,
                wanted,
                limit=limit,
                offset=offset,
                project_tips=project_compression_tips,
                include_pinned=include_pinned,
            )
        return [line_dict(line, compact=compact_rows) for line in lines]

    # -- export ---------------------------------------------------------------------------------------------

    def export_session(self, session_id: str) -> dict[str, Any] | None:
        """A session with its live messages; None if there is none with this id. Rule EXPORT-1."""
        self.flush_token_counts()
        with self._reader() as reader:
            return export_one(reader, session_id)

    def export_all(self, source: str | None = None) -> list[dict[str, Any]]:
        """Every session with its live messages, latest active first. Rule EXPORT-1."""
        self.flush_token_counts()
        with self._reader() as reader:
            return list(export_sessions(reader, source=source or None))

    # -- removing -------------------------------------------------------------------------------------------

    def delete_session(
        self,
        session_id: str,
        sessions_dir: Path | None = None,
        expected_delete_ids: Iterable[str] | None = None,
    ) -> bool:
        """Remove a conversation: all its segments, their delegate runs and messages. Rules DELETE-1 and DELETE-2.

        False for an unknown id, and when what would be removed is not what `expected_delete_ids` says. Queued usage is
        stored first; raises StoreLocked where that cannot be.
        """
        folder = _folder(sessions_dir)
        expected = None if expected_delete_ids is None else set(expected_delete_ids)
        # Usage that is stored afterwards would make the session anew.
        self._store_queued_usage()
        removed = self._write(lambda unit: delete_conversation(unit, session_id, expected=expected))
        if folder is not None:
            remove_session_files(folder, removed)
        return bool(removed)

    def prune_sessions(
        self,
        older_than_days: float | None = 90,
        source: str | None = None,
        sessions_dir: Path | None = None,
        *,
        last_active_before: float | None = None,
        last_active_after: float | None = None,
        started_before: float | None = None,
        started_after: float | None = None,
        end_reason: str | None = None,
        user_id: str | None = None,
        chat_id: str | None = None,
        chat_type: str | None = None,
        provider: str | None = None,
        title_like: str | None = None,
        model_like: str | None = None,
        branch_like: str | None = None,
        cwd_prefix: str | None = None,
        min_messages: int | None = None,
        max_messages: int | None = None,
        min_tokens: int | None = None,
        max_tokens: int | None = None,
        min_cost: float | None = None,
        max_cost: float | None = None,
        min_tool_calls: int | None = None,
        max_tool_calls: int | None = None,
        archived: bool | None = None,
    ) -> int:
        """Remove ended sessions without activity for so many days; returns how many. Rule DELETE-3.

        Pinned and archived ones are kept. Queued usage is stored first; raises StoreLocked where that cannot be,
        InvalidValue without a number of days or with a negative one, and NotBuilt for a filter that this release does
        not have yet: a filter is never accepted and ignored.
        """
        _refuse_planned(
            "prune_sessions",
            last_active_before=last_active_before,
            last_active_after=last_active_after,
            started_before=started_before,
            started_after=started_after,
            end_reason=end_reason,
            user_id=user_id,
            chat_id=chat_id,
            chat_type=chat_type,
            provider=provider,
            title_like=title_like,
            model_like=model_like,
            branch_like=branch_like,
            cwd_prefix=cwd_prefix,
            min_messages=min_messages,
            max_messages=max_messages,
            min_tokens=min_tokens,
            max_tokens=max_tokens,
            min_cost=min_cost,
            max_cost=max_cost,
            min_tool_calls=min_tool_calls,
            max_tool_calls=max_tool_calls,
            archived=archived,
        )
        if older_than_days is None:
            raise InvalidValue("older_than_days is None; give a number of days")
        days, folder = older_than_days, _folder(sessions_dir)
        self._store_queued_usage()
        removed = self._write(lambda unit: unit.prune(older_than_days=days, source=source or None))
        if folder is not None:
            remove_session_files(folder, removed)
        return len(removed)

    def __getattr__(self, name: str) -> Any:
        # Imported here: the table is for people and tests, and opening a store does not wait for it.
        from hermes_store.compat.methods import BY_NAME, State

        planned = BY_NAME.get(name)
        if planned is not None and planned.state is State.PLANNED:
            raise AttributeError(f"SessionDB.{name}{planned.signature} is planned and not available in this release")
        raise AttributeError(f"SessionDB has no attribute {name!r}")


def _folder(sessions_dir: Path | None) -> Path | None:
    return None if sessions_dir is None else Path(sessions_dir)


def _refuse_planned(method: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise NotBuilt(f"{method}({name}=...) is planned and not available in this release; leave it out")
