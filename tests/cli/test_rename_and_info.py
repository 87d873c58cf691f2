"""`sessions rename`, `db info` and `demo`."""

import re
from pathlib import Path

import pytest

from hermes_store import SessionDB, Store
from hermes_store.cli.demo import QUERIES, load_conversations
from hermes_store.database import load_driver
from tests.cli.running import Run, files_of, run_apart
from tests.schema.inspecting import change
from tests.snapshots.hermes_v23 import Story
from tests.support.drivers import Engine


def _title(path: Path, session_id: str) -> str | None:
    with SessionDB(path, read_only=True) as db:
        return db.get_session_title(session_id)


def test_rename_stores_a_clean_title_and_says_so_on_stderr(run: Run, small: Path) -> None:
    ran = run("sessions", "rename", "beta", "  a   new\u200b title\x1b ").data()
    assert (ran.out, ran.err) == ("", "beta is now 'a new title'\n")
    assert _title(small, "beta") == "a new title"


def test_rename_as_json(run: Run, small: Path) -> None:
    ran = run("--json", "sessions", "rename", "bet", "部署记录").data()
    assert (ran.json, ran.err) == ({"id": "beta", "title": "部署记录"}, "")
    assert _title(small, "beta") == "部署记录"


def test_an_empty_title_takes_the_title_away(run: Run, small: Path) -> None:
    assert run("sessions", "rename", "alpha-two", "").data().err == "alpha-two is now without a title\n"
    assert _title(small, "alpha-two") is None
    assert run("--json", "sessions", "rename", "alpha-two", " ").data().json == {"id": "alpha-two", "title": None}


def test_a_session_may_keep_its_title(run: Run, small: Path) -> None:
    run("sessions", "rename", "alpha-two", "Taken").data()
    assert _title(small, "alpha-two") == "Taken"


def test_rename_adopts_a_file_of_hermes_agent(run: Run, story: Story, path: Path) -> None:
    assert run("--json", "db", "info").data().json["revision"] is None
    run("sessions", "rename", story.session_ids[0], "Adopted").data()
    assert run("--json", "db", "info").data().json["revision"] == "0023"


def test_info_tells_what_the_file_is(run: Run, story: Story, path: Path, engine: Engine) -> None:
    found = run("--json", "db", "info").data().json
    driver = load_driver(engine.driver)
    assert found["path"] == str(path.resolve())
    assert found["size"] == path.stat().st_size
    assert (found["driver"], found["sqlite_version"]) == (engine.driver, driver.version_text)
    assert found["journal_mode"] == engine.journal_mode
    assert (found["schema_version"], found["revision"]) == (23, None)
    assert found["rows"]["sessions"] == len(story.session_ids)
    assert found["rows"]["messages"] == story.message_rows
    assert found["rows"]["session_model_usage"] == story.usage_rows
    assert found["active_messages"] == sum(story.active_rows.values())
    assert {each["name"]: each["complete"] for each in found["indexes"]} == {
        "messages_fts": True,
        "messages_fts_trigram": True,
    }
    assert {each["layout"] for each in found["indexes"]} == {"three columns over the messages"}
    assert any("hermes-store db upgrade" in line for line in found["advice"])
    assert found["last_upgrade"] is None


def test_info_tells_of_the_last_upgrade(run: Run, story: Story, path: Path, engine: Engine) -> None:
    done = run("--json", "db", "upgrade").json
    found = run("--json", "db", "info").data().json["last_upgrade"]
    assert found["report"]["columns_added"] == done["columns_added"] != []
    assert found["report"]["adopted"] is True
    assert found["at"] > 0
    lines = run("db", "info").data().lines
    assert any(line.startswith("last upgrade") for line in lines)
    assert any("sessions.last_read_at" in line for line in lines)


def test_info_as_a_table_says_the_same(run: Run, story: Story, path: Path, engine: Engine) -> None:
    ran = run("db", "info").data()
    values = {key.strip(): value for key, value in (re.split(r"  +", line, maxsplit=1) for line in ran.lines)}
    assert values["path"] == str(path.resolve())
    assert values["driver"].startswith(f"{engine.driver}, SQLite ")
    assert (values["schema version"], values["revision"]) == ("23", "none")
    assert values["rows in messages"] == f"{story.message_rows:,}"
    assert values["index messages_fts"].startswith("complete")
    assert all(line.startswith("note: ") for line in ran.err.splitlines())


def test_info_shows_what_is_counted(run: Run, small: Path, any_engine: Engine) -> None:
    found = run("--json", "db", "info").data().json
    assert {"commits", "waits", "retries", "checkpoints", "merges", "repairs"} <= found["counters"].keys()
    assert set(found["counters"].values()) == {0}
    assert found["index_repairs"] == {"count": 0, "last": None, "what": []}
    assert all(each["segments"] > 0 for each in found["indexes"])
    assert found["state"] == "ok"
    assert found["logical_size"] >= found["size"] > 0
    assert (found["log_size"], found["free_pages"]) == (0, 0)


def test_info_tells_of_a_mended_index(run: Run, small: Path, any_engine: Engine) -> None:
    with Store.open(small) as store:
        change(small, any_engine.driver, "DELETE FROM messages_fts_data WHERE id = 1")
        store.write(lambda unit: unit.create_session("new", "cli"))
        store.append("new", "user", {"content": "hello"})
    found = run("--json", "db", "info").data().json["index_repairs"]
    assert found["count"] == 1
    assert found["last"] > 1_700_000_000
    assert found["what"] == ["messages_fts was filled anew"]
    assert any("indexes mended" in line for line in run("db", "info").data().lines)


def test_info_notices_an_index_that_lacks_rows(run: Run, small: Path, any_engine: Engine) -> None:
    change(small, any_engine.driver, "DROP TRIGGER messages_fts_insert")
    found = {each["name"]: each for each in run("--json", "db", "info").data().json["indexes"]}
    assert (found["messages_fts"]["complete"], found["messages_fts"]["triggers"]) == (False, 2)
    assert found["messages_fts_trigram"]["complete"] is True


def test_info_notices_an_index_that_is_missing(run: Run, path: Path, any_engine: Engine) -> None:
    with Store.open(path):
        pass
    change(path, any_engine.driver, "DROP TABLE messages_fts_trigram")
    ran = run("--json", "db", "info").data()
    assert any("search index is missing" in line for line in ran.json["advice"])
    run("db", "upgrade").data()
    assert run("--json", "db", "info").data().json["advice"] == [
        line for line in ran.json["advice"] if "search index" not in line
    ]


def test_info_counts_tables_that_it_does_not_know(run: Run, small: Path, any_engine: Engine) -> None:
    change(small, any_engine.driver, 'CREATE TABLE "odd ""name" (x)', 'INSERT INTO "odd ""name" VALUES (1)')
    assert run("--json", "db", "info").data().json["rows"]['odd "name'] == 1


@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_demo_tells_its_story_and_leaves_nothing(run: Run, home: Path, path: Path, elsewhere: bool) -> None:
    ran = run("demo", db=path if elsewhere else None).data()
    assert ran.err == ""
    for text in ("sessions list", "数据库", "docker", "Exported", "->", "(thinks)"):
        assert text in ran.out
    assert list(home.iterdir()) == []
    assert not path.exists()


def test_the_demo_as_json_counts_what_it_did(run: Run) -> None:
    facts = run("--json", "demo").data().json
    conversations = load_conversations()
    assert facts["messages"] == sum(len(each["messages"]) for each in conversations)
    assert set(facts["sessions"]) <= {each["id"] for each in conversations}
    assert facts["exported"] == len(conversations)
    assert set(facts["hits"]) == set(QUERIES)
    assert all(facts["hits"].values())


def test_the_demo_runs_with_every_engine(run: Run, engine: Engine) -> None:
    assert f"written through {engine.driver}" in " ".join(run("demo").data().out.split())


def test_the_demo_runs_in_a_process_of_its_own(small: Path) -> None:
    before = files_of(small)
    ran = run_apart("--json", "demo", db=small).data()
    assert ran.json["exported"] == len(load_conversations())
    assert files_of(small) == before
