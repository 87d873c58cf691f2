"""`hermes-store sessions ...`: what the agent did."""

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from hermes_store.cli.optimize import optimize_storage_command
from hermes_store.cli.options import Options, pass_options
from hermes_store.cli.output import clean, moment, number, print_json, print_table, talk, write_line
from hermes_store.conversation.content import plain_text
from hermes_store.errors import InvalidValue
from hermes_store.home import canonical
from hermes_store.operations.listing import list_sessions
from hermes_store.operations.titles import refuse_title
from hermes_store.portability.export import export_one, export_sessions, json_line
from hermes_store.repositories.records import PROMPT_HASH, MessageRecord, SessionRecord, SessionSummary
from hermes_store.repositories.search import SearchFilter
from hermes_store.repositories.sessions import SessionFilter
from hermes_store.store import Store


@click.group()
def sessions() -> None:
    """Sessions and their messages."""


@sessions.command("list")
@click.option("--source", metavar="NAME", help="Only sessions of this platform.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="At most so many.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out so many of the latest.")
@pass_options
def list_command(options: Options, source: str | None, limit: int, offset: int) -> None:
    """List sessions, latest start first; every segment, branch and delegate run is a line of its own."""
    wanted = SessionFilter(source=source, include_children=True, include_archived=True)
    with options.open() as store, store.reader() as reader:
        found = list_sessions(reader, wanted, limit=limit, offset=offset)
        total = reader.sessions.count()
    if options.json:
        print_json([_summary_json(summary) for summary in found])
        return
    if not found:
        talk("No sessions found.")
        return
    rows = [
        (
            summary.session.id,
            summary.session.source,
            moment(summary.session.started_at),
            summary.session.message_count if summary.session.message_count is not None else "-",
            summary.session.end_reason or ("ended" if summary.session.ended_at is not None else "live"),
            summary.session.title or summary.preview or "-",
        )
        for summary in found
    ]
    print_table(("id", "source", "started", "messages", "state", "title or first words"), rows)
    if len(found) < total and source is None:
        talk(f"{len(found)} of {total} sessions; --limit and --offset show others")


def _session_json(session: SessionRecord) -> dict[str, Any]:
    shown = dataclasses.asdict(session)
    if shown[PROMPT_HASH] is None:
        # Most files have no such column.
        del shown[PROMPT_HASH]
    return shown


def _summary_json(summary: SessionSummary) -> dict[str, Any]:
    shown = _session_json(summary.session)
    del shown["system_prompt"]
    return {**shown, "preview": summary.preview, "last_active": summary.last_active, "unread": summary.unread}


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--all", "everything", is_flag=True, help="Archived and undone messages too.")
@pass_options
def show(options: Options, session_id: str, everything: bool) -> None:  # noqa: FBT001 - a command line flag
    """Show a session with its messages; ID may be the beginning of one."""
    with options.open() as store, store.reader() as reader:
        session = reader.sessions.get(reader.sessions.resolve(session_id))
        messages = reader.messages.of_session(session.id, include_inactive=everything)
    if options.json:
        print_json({**_session_json(session), "messages": [dataclasses.asdict(each) for each in messages]})
        return
    facts: list[tuple[str, object]] = [
        ("id", session.id),
        ("title", session.title or "-"),
        ("source", session.source),
        ("model", session.model or "-"),
        ("started", moment(session.started_at)),
        ("ended", f"{moment(session.ended_at)} {session.end_reason or ''}"),
        ("parent", session.parent_session_id or "-"),
        ("tokens", f"{number(session.input_tokens)} in, {number(session.output_tokens)} out"),
        ("messages", len(messages)),
    ]
    print_table(("what", "value"), facts)
    for message in messages:
        for line in _message_lines(message):
            write_line(clean(line))


def _message_lines(message: MessageRecord) -> Iterator[str]:
    state = "" if message.active else (" (archived)" if message.compacted else " (undone)")
    yield ""
    yield f"[{message.id}] {message.role}{state}  {moment(message.timestamp)}"
    if message.reasoning:
        yield from (f"    | {line}" for line in message.reasoning.splitlines())
    yield from (f"    {line}" for line in plain_text(message.content).splitlines())
    for call in message.tool_calls if isinstance(message.tool_calls, list) else []:
        yield f"    -> {json.dumps(call, ensure_ascii=False)}"


@sessions.command()
@click.argument("query")
@click.option("--source", "source_names", multiple=True, metavar="NAME", help="Only sessions of this platform.")
@click.option("--role", "roles", multiple=True, metavar="NAME", help="Only messages of this role.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="At most so many.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Leave out so many of the best.")
@click.option("--explain", is_flag=True, help="Say how the query was answered.")
@pass_options
def search(
    options: Options,
    query: str,
    source_names: tuple[str, ...],
    roles: tuple[str, ...],
    limit: int,
    offset: int,
    explain: bool,  # noqa: FBT001 - a command line flag
) -> None:
    """Find messages: words, "phrases", begin*, AND, OR, NOT, in any language."""
    wanted = SearchFilter(sources=source_names or None, roles=roles)
    with options.open() as store, store.reader() as reader:
        plan = reader.search.plan(query, wanted)
        hits = reader.search.messages(query, wanted, limit=limit, offset=offset)
    if explain:
        talk(f"answered by: {plan.route.value} ({plan.reason})")
    if options.json:
        print_json([dataclasses.asdict(hit) for hit in hits])
        return
    if not hits:
        talk("Nothing found.")
        return
    rows = [
        (hit.session_id, hit.id, hit.role, moment(hit.timestamp), " ".join((hit.snippet or "").split())) for hit in hits
    ]
    print_table(("session", "message", "role", "time", "text"), rows)


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.argument("title")
@pass_options
def rename(options: Options, session_id: str, title: str) -> None:
    """Give a session a title, or take it away with an empty one; ID may be the beginning of one."""
    # Looked up before anything is opened for writing: what is refused changes nothing.
    with options.open() as store, store.reader() as reader:
        resolved = reader.sessions.resolve(session_id)
        refuse_title(reader, resolved, title)
    with options.open(read_only=False) as store:
        store.write(lambda unit: unit.set_title(resolved, title))
        with store.reader() as reader:
            stored = reader.titles.find(resolved)
    if options.json:
        print_json({"id": resolved, "title": stored})
    else:
        talk(f"{clean(resolved)} is now {'without a title' if stored is None else repr(stored)}")


@sessions.command()
@click.option("--session", "session_id", metavar="ID", help="Only this session; ID may be the beginning of one.")
@click.option("--source", metavar="NAME", help="Only sessions of this platform.")
@click.option("-o", "--output", "target", required=True, metavar="FILE", help="Where to; - is stdout.")
@pass_options
def export(options: Options, session_id: str | None, source: str | None, target: str) -> None:
    """Write sessions with their live messages as JSON, one session a line."""
    if session_id is not None and source is not None:
        raise click.UsageError("--session and --source exclude each other")
    with options.open() as store:
        lines = _export_lines(store, session_id, source)
        counted, messages = _to_stdout(lines) if target == "-" else _to_file(Path(target), lines, options.path)
    if options.json and target != "-":
        print_json({"sessions": counted, "messages": messages, "output": target})
    else:
        talk(f"exported {counted} sessions with {messages} messages to {clean(target)}")


def _export_lines(store: Store, session_id: str | None, source: str | None) -> Iterator[tuple[str, int]]:
    with store.reader() as reader:
        if session_id is not None:
            one = export_one(reader, reader.sessions.resolve(session_id))
            exported = iter([one] if one is not None else [])
        else:
            exported = export_sessions(reader, source=source)
        for each in exported:
            yield json_line(each), len(each["messages"])


def _to_stdout(lines: Iterator[tuple[str, int]]) -> tuple[int, int]:
    sessions_written = messages = 0
    for line, count in lines:
        write_line(line)
        sessions_written += 1
        messages += count
    sys.stdout.flush()
    return sessions_written, messages


def _to_file(target: Path, lines: Iterator[tuple[str, int]], store_path: Path) -> tuple[int, int]:
    """Write beside the target and rename, so that a failure leaves what was there before."""
    if target.is_dir():
        raise InvalidValue(f"{target} is a folder; name a file")
    for suffix in ("", "-wal", "-shm", "-journal"):
        if canonical(target) == canonical(store_path.with_name(store_path.name + suffix)):
            raise InvalidValue(f"{target} is the store itself; name another file")
    if target.exists() and target.samefile(store_path):
        raise InvalidValue(f"{target} is the store itself; name another file")
    if target.exists() and not target.is_file():
        # A pipe or a device is written to, not replaced.
        with target.open("w", encoding="utf-8", newline="\n") as stream:
            return _write_all(stream, lines)
    final = Path(canonical(target))
    draft = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as stream:
            counted = _write_all(stream, lines)
        draft.replace(final)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return counted


def _write_all(stream: IO[str], lines: Iterator[tuple[str, int]]) -> tuple[int, int]:
    sessions_written = messages = 0
    for line, count in lines:
        stream.write(line + "\n")
        sessions_written += 1
        messages += count
    return sessions_written, messages


sessions.add_command(optimize_storage_command)
