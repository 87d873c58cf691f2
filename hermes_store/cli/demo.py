"""`hermes-store demo`: the whole way once, on a conversation that comes with the package."""

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hermes_store.cli.options import Options, pass_options
from hermes_store.cli.output import DataConsole, print_json
from hermes_store.compat import SessionDB
from hermes_store.home import reset_hermes_home_override, set_hermes_home_override
from hermes_store.portability.export import json_line

QUERIES = ("docker", "数据库迁移", "备份", "retry-after", "部署 AND 镜像")


def load_conversations() -> list[dict[str, Any]]:
    """The sessions that come with the package, each with `messages`."""
    text = files("hermes_store.cli").joinpath("demo_conversation.json").read_text(encoding="utf-8")
    loaded: list[dict[str, Any]] = json.loads(text)
    return loaded


@click.command()
@pass_options
def demo(options: Options) -> None:
    """Load a conversation into a store in a temporary home, list, search, show and export it."""
    console = DataConsole(quiet=options.json, highlight=False)
    with tempfile.TemporaryDirectory(prefix="hermes-store-demo-") as folder:
        token = set_hermes_home_override(folder)
        try:
            facts = _tell(console, Path(folder))
        finally:
            reset_hermes_home_override(token)
    if options.json:
        print_json(facts)


def _tell(console: Console, home: Path) -> dict[str, Any]:
    with SessionDB() as db:
        store = db.store
        console.print(
            Panel(
                f"A new store: {db.db_path.name}, written through {store.driver.name} (SQLite "
                f"{store.driver.version_text}) in {store.journal_mode.upper()} mode",
                title="hermes-store demo",
            )
        )
        conversations = load_conversations()
        stored = _load(db, conversations)
        console.print(f"Loaded {stored} messages of {len(conversations)} sessions.\n")
        listed = db.list_sessions_rich()
        console.print(_listing(listed))
        found = {query: db.search_messages(query) for query in QUERIES}
        for query, hits in found.items():
            console.print(_hits(query, hits))
        shown = db.get_messages_as_conversation(listed[-1]["id"], repair_alternation=True)
        console.print(_conversation(listed[-1]["id"], shown))
        target = home / "export.jsonl"
        exported = db.export_all()
        target.write_text("".join(json_line(each) + "\n" for each in exported), encoding="utf-8")
        console.print(f"Exported {len(exported)} sessions, {target.stat().st_size:,} bytes of JSONL.")
        console.print("The temporary home is removed again.")
    return {
        "messages": stored,
        "sessions": [each["id"] for each in listed],
        "hits": {query: [hit["id"] for hit in hits] for query, hits in found.items()},
        "exported": len(exported),
    }


def _load(db: SessionDB, conversations: list[dict[str, Any]]) -> int:
    stored = 0
    for session in conversations:
        db.create_session(
            session["id"], session["source"], model=session.get("model"), parent_session_id=session.get("parent")
        )
        if session.get("title"):
            db.set_session_title(session["id"], session["title"])
        for message in session["messages"]:
            db.append_message(session["id"], **message)
            stored += 1
        if session.get("end_reason"):
            db.end_session(session["id"], session["end_reason"])
    return stored


def _listing(rows: list[dict[str, Any]]) -> Table:
    table = Table("id", "source", "title", "messages", "preview", title="sessions list")
    for row in rows:
        table.add_row(row["id"], row["source"], row["title"] or "-", str(row["message_count"]), row["preview"])
    return table


def _hits(query: str, hits: list[dict[str, Any]]) -> Table:
    table = Table("message", "role", "text", title=f"sessions search {query}", title_justify="left")
    for hit in hits:
        table.add_row(str(hit["id"]), hit["role"], _marked(hit["snippet"] or ""))
    return table


def _marked(snippet: str) -> Text:
    text = Text()
    for position, part in enumerate(snippet.replace("<<<", ">>>").split(">>>")):
        text.append(part, style="bold yellow" if position % 2 else "")
    return text


def _conversation(session_id: str, messages: list[dict[str, Any]]) -> Table:
    table = Table("role", "what", title=f"sessions show {session_id}")
    for message in messages:
        calls = message.get("tool_calls") or []
        parts = [f"(thinks) {message['reasoning']}"] if message.get("reasoning") else []
        if isinstance(message["content"], str) and message["content"]:
            parts.append(message["content"])
        parts.extend(f"-> {call['function']['name']} {call['function']['arguments']}" for call in calls)
        table.add_row(message["role"], Text("\n".join(parts)))
    return table
