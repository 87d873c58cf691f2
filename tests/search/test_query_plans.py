"""No hot call walks through the table of messages, with statistics and without them."""

import functools
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_store import JournalMode, Reader, SessionDB, Settings, Store, Unit, connect
from tests.search.helpers import alike, on_every_route
from tests.support.drivers import indexes_past_nul, installed
from tests.support.statements import StatementLog, log_statements

SESSIONS, MESSAGES = 60, 3000
LONG = "s0"  # holds a third of all messages

Plans = dict[str, list[str]]
Call = Callable[[SessionDB], Any]


def fill(unit: Unit) -> None:
    for number in range(SESSIONS):
        parent = f"s{number - 1}" if number % 10 == 5 else None
        unit.create_session(f"s{number}", ("cli", "telegram", "cron")[number % 3], parent_session_id=parent)
        if number % 10 == 7:
            unit.end_session(f"s{number}", "user_exit")
    for number in range(MESSAGES):
        session = LONG if number % 3 == 0 else f"s{number % SESSIONS}"
        role = ("user", "assistant", "tool")[number % 3]
        unit.append(session, role, f"word{number % 50} docker 今天部署失败 {number}", tool_name="terminal")
    for number in range(4, SESSIONS, 10):
        unit.end_session(f"s{number}", "compression")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Path]:
    """A filled file per driver, with and without statistics, built once."""
    folder = tmp_path_factory.mktemp("templates")

    @functools.cache
    def build(driver: str, analyzed: bool) -> Path:
        path = folder / f"{driver}-{analyzed}.db"
        with Store.open(path, settings=Settings(driver=driver, journal_mode=JournalMode.DELETE)) as store:
            store.write(fill)
        if analyzed:
            raw = connect(path, driver=driver)
            raw.execute("ANALYZE")
            raw.close()
        return path

    return build


@pytest.fixture(params=[False, True], ids=["fresh", "analyzed"])
def analyzed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=installed())
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def logged(
    template: Callable[[str, bool], Path], driver: str, analyzed: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SessionDB, StatementLog]]:
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", driver)
    shutil.copyfile(template(driver, analyzed), path)
    with log_statements(monkeypatch) as log, SessionDB(path) as db:
        yield db, log


@pytest.fixture
def explain(logged: tuple[SessionDB, StatementLog], path: Path, driver: str) -> Callable[[Call], Plans]:
    """Runs a call; gives every statement of it with the lines of its plan."""
    db, log = logged

    def run(call: Call) -> Plans:
        log.clear()
        call(db)
        statements = dict.fromkeys(text for text in log.without_transactions if "'main'.'messages_fts" not in text)
        raw = connect(path, driver=driver)
        plans = {text: [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {text}")] for text in statements}
        raw.close()
        return plans

    return run


def passes_over(table: str, plans: Plans) -> list[str]:
    """The lines that walk through a whole table or a whole index of it."""
    found = []
    for statement, lines in plans.items():
        names = {table, *re.findall(rf"\b{table} AS (\w+)", statement)}
        found += [line for line in lines if (scanned := re.match(r"SCAN (\S+)", line)) and scanned.group(1) in names]
    return found


def reading(fn: Callable[[Reader], Any]) -> Call:
    def call(db: SessionDB) -> Any:
        with db.store.reader() as reader:
            return fn(reader)

    return call


def everything(query: str, **options: Any) -> Call:
    return lambda db: db.search_messages(query, **options)


EVERY_FILTER: dict[str, Any] = {
    "source_filter": ["cli"],
    "exclude_sources": ["x"],
    "role_filter": ["user"],
    "include_inactive": True,
    "sort": "oldest",
}
READS: dict[str, Call] = {
    "get_session": lambda db: db.get_session("s1"),
    "get_messages": lambda db: db.get_messages(LONG),
    "get_messages, a page": lambda db: db.get_messages(LONG, limit=5, offset=5),
    "get_messages, inactive too": lambda db: db.get_messages(LONG, include_inactive=True),
    "conversation": lambda db: db.get_messages_as_conversation(LONG),
    "conversation with ancestors": lambda db: db.get_messages_as_conversation("s5", include_ancestors=True),
    "list": lambda db: db.list_sessions_rich(),
    "list, long": lambda db: db.list_sessions_rich(limit=500),
    "list, filtered": lambda db: db.list_sessions_rich(source="cli", exclude_sources=["cron"], min_message_count=1),
    "list, children too": lambda db: db.list_sessions_rich(include_children=True, include_pinned=True),
    "export_session": lambda db: db.export_session(LONG),
    "export_all": lambda db: db.export_all(),
    "resolve_title": lambda db: db.resolve_session_by_title("alpha"),
    "next_title": lambda db: db.get_next_title_in_lineage("alpha"),
    "count of a session": reading(lambda reader: reader.messages.count("s1")),
    "search words": everything("docker"),
    "search words, eighty": everything("docker", limit=80, offset=20),
    "search a rare word": everything("word7 2957"),
    "search by part": everything("ocke"),
    "search in vain": everything("zebrafish"),
    "search CJK": everything("今天部署失败"),
    "search by time": everything("docker", sort="newest"),
    "search sources": everything("docker", source_filter=["cli"]),
    "search but sources": everything("docker", exclude_sources=["cli", "cron"]),
    "search roles": everything("docker", role_filter=["tool"]),
    "search everything": everything("docker", **EVERY_FILTER),
}
WRITES: dict[str, Call] = {
    "append": lambda db: db.append_message("s1", "user", "docker 部署失败", tool_calls=[{"id": "c"}]),
    "end_session": lambda db: db.end_session("s2", "done"),
    "set_title": lambda db: db.set_session_title("s1", "alpha"),
    "create_session": lambda db: db.create_session("new", "cli", parent_session_id="s4"),
    "clear_messages": lambda db: db.clear_messages("s1"),
    "delete_session": lambda db: db.delete_session("s4"),
    "prune": lambda db: db.prune_sessions(older_than_days=0),
}


def test_no_read_walks_through_the_messages(explain: Callable[[Call], Plans], driver: str) -> None:
    scanned = () if indexes_past_nul(driver) else ("search CJK",)
    explained = {name: explain(call) for name, call in READS.items() if name not in scanned}
    assert all(explained.values())
    assert {name: bad for name, plans in explained.items() if (bad := passes_over("messages", plans))} == {}


def test_no_write_walks_through_the_messages(explain: Callable[[Call], Plans]) -> None:
    explained = {name: explain(call) for name, call in WRITES.items()}
    assert all(explained.values())
    assert {name: bad for name, plans in explained.items() if (bad := passes_over("messages", plans))} == {}


def lines_about(plans: Plans, alias: str) -> list[str]:
    return [line for lines in plans.values() for line in lines if re.match(rf"(SEARCH|SCAN) {alias}\b", line)]


def test_neighbours_are_found_through_session_and_id(explain: Callable[[Call], Plans]) -> None:
    plans = on_every_route(lambda query: explain(everything(query, limit=80)))
    before = {route: lines_about(each, "previous") for route, each in plans.items()}
    after = {route: lines_about(each, "following") for route, each in plans.items()}
    assert before == alike(["SEARCH previous USING INDEX idx_messages_session_id (session_id=? AND id<?)"])
    assert after == alike(["SEARCH following USING INDEX idx_messages_session_id (session_id=? AND id>?)"])


def test_previews_and_last_times_come_from_an_index_of_the_session(explain: Callable[[Call], Plans]) -> None:
    lines = lines_about(explain(lambda db: db.list_sessions_rich(limit=500)), "messages")
    assert len([line for line in lines if "USING INDEX idx_messages_session_id (session_id=?)" in line]) == 1
    assert all(re.search(r"INDEX idx_messages_session(_id)? \(session_id=\?\)$", line) for line in lines)


def test_a_transcript_is_read_in_its_order_without_sorting(explain: Callable[[Call], Plans]) -> None:
    for call in (READS["get_messages"], READS["conversation"], READS["get_messages, a page"]):
        lines = [line for lines in explain(call).values() for line in lines]
        assert lines == ["SEARCH messages USING INDEX idx_messages_session_id (session_id=?)"]


def test_a_list_is_read_in_its_order(explain: Callable[[Call], Plans]) -> None:
    lines = [line for lines in explain(READS["list"]).values() for line in lines]
    assert "USE TEMP B-TREE FOR ORDER BY" not in lines


def test_lineage_is_walked_through_indexes(explain: Callable[[Call], Plans], request: pytest.FixtureRequest) -> None:
    if "analyzed" in request.node.callspec.id:
        pytest.skip("of so few sessions the planner rightly reads all, once it knows their number")
    calls = {name: READS[name] for name in ("conversation with ancestors", "list")}
    calls["delete_session"] = WRITES["delete_session"]
    in_order = "SCAN sessions USING INDEX idx_sessions_started"
    walked = {
        name: [line for line in passes_over("sessions", explain(call)) if line != in_order]
        for name, call in calls.items()
    }
    # The marks of delegate runs stand in no index: one pass per deletion.
    assert walked == {"conversation with ancestors": [], "list": [], "delete_session": ["SCAN sessions"]}


def test_a_scan_goes_through_the_messages_once_in_the_order_of_its_result(explain: Callable[[Call], Plans]) -> None:
    for options in ({}, {"sort": "oldest"}, {"role_filter": ["user"]}, {"exclude_sources": ["cron"]}):
        plans = explain(everything("部署", **options))
        assert passes_over("messages", plans) == ["SCAN messages"]
        # So it ends as soon as the page is full.
        assert "USE TEMP B-TREE FOR ORDER BY" not in [line for lines in plans.values() for line in lines]
