"""`sessions list`, `show` and `search` on a file of Hermes Agent: tables for people, JSON for programs."""

from pathlib import Path

import pytest

from tests.cli.running import Run, files_of
from tests.snapshots.hermes_v23 import Story


def test_list_shows_every_session_as_a_table(run: Run, story: Story) -> None:
    ran = run("sessions", "list").data()
    assert ran.lines[0].split()[:3] == ["id", "source", "started"]
    assert {line.split()[0] for line in ran.lines[1:]} == set(story.session_ids)
    assert ran.err == ""


def test_list_shows_the_same_as_json(run: Run, story: Story) -> None:
    listed = run("--json", "sessions", "list").data().json
    assert [each["id"] for each in listed] == [line.split()[0] for line in run("sessions", "list").lines[1:]]
    assert {each["id"]: each["title"] for each in listed if each["title"]} == story.titles
    assert {each["id"]: each["message_count"] for each in listed} == story.message_counts
    assert all({"source", "started_at", "preview", "last_active", "model"} <= set(each) for each in listed)


@pytest.mark.parametrize("arguments", [("--limit", "3"), ("--limit", "3", "--offset", "2"), ("--offset", "13")])
def test_list_gives_one_page_and_says_that_there_is_more(run: Run, story: Story, arguments: tuple[str, ...]) -> None:
    everything = run("sessions", "list", "--limit", "100").lines[1:]
    ran = run("sessions", "list", *arguments).data()
    limit = int(arguments[1]) if arguments[0] == "--limit" else 100
    offset = int(arguments[-1]) if "--offset" in arguments else 0
    wanted = everything[offset : offset + limit]
    assert [line.split() for line in ran.lines[1:]] == [line.split() for line in wanted]
    assert f"{len(wanted)} of 14 sessions" in ran.err


def test_list_of_one_platform(run: Run, story: Story) -> None:
    listed = run("--json", "sessions", "list", "--source", "telegram").data().json
    assert listed
    assert {each["source"] for each in listed} == {"telegram"}


def test_an_empty_page_is_said_on_stderr(run: Run, story: Story) -> None:
    ran = run("sessions", "list", "--source", "nowhere").data()
    assert (ran.out, ran.err) == ("", "No sessions found.\n")
    assert run("--json", "sessions", "list", "--limit", "0").data().json == []


def test_show_gives_the_session_with_its_live_messages(run: Run, story: Story) -> None:
    for session_id in story.session_ids:
        shown = run("--json", "sessions", "show", session_id).data().json
        assert shown["id"] == session_id
        assert len(shown["messages"]) == story.active_rows[session_id]
        heads = [line for line in run("sessions", "show", session_id).data().lines if line.startswith("[")]
        assert len(heads) == story.active_rows[session_id]


def test_show_all_gives_archived_and_undone_messages_too_and_marks_them(run: Run, story: Story) -> None:
    for session_id, word, hidden in (
        (story.session_ids[3], "(archived)", story.archived_ids),
        (story.session_ids[6], "(undone)", story.rewound_ids),
    ):
        assert word not in run("sessions", "show", session_id).data().out
        marked = [line for line in run("sessions", "show", "--all", session_id).data().lines if word in line]
        assert [int(line[1 : line.index("]")]) for line in marked] == list(hidden)


def test_show_takes_the_beginning_of_an_id(run: Run, story: Story) -> None:
    session_id = story.session_ids[0]
    assert run("--json", "sessions", "show", session_id[:-1]).data().json["id"] == session_id


def test_show_prints_structured_content_calls_and_reasoning(run: Run, story: Story) -> None:
    assert "quokka" in run("sessions", "show", story.session_ids[7]).data().out
    shown = run("sessions", "show", story.session_ids[0]).data()
    assert any(line.startswith("    -> ") and "grep -n" in line for line in shown.lines)
    assert any(line.startswith("    | compare the two stack traces") for line in shown.lines)


def test_search_finds_words_of_every_script(run: Run, story: Story) -> None:
    for word, holders in {**story.english, **story.chinese, **story.other_scripts}.items():
        hits = run("--json", "sessions", "search", word, "--limit", "1000").data().json
        assert {hit["session_id"] for hit in hits} == set(holders), word


def test_search_prints_a_table_with_the_words_marked(run: Run, story: Story) -> None:
    ran = run("sessions", "search", "docker", "--limit", "5").data()
    assert ran.lines[0].split() == ["session", "message", "role", "time", "text"]
    assert len(ran.lines) == 6
    assert all(">>>docker<<<" in line for line in ran.lines[1:])


@pytest.mark.parametrize(("option", "value", "field"), [("--role", "user", "role"), ("--source", "telegram", "source")])
def test_search_filters(run: Run, story: Story, option: str, value: str, field: str) -> None:
    hits = run("--json", "sessions", "search", "docker", option, value).data().json
    assert hits
    assert {hit[field] for hit in hits} == {value}


def test_search_gives_pages(run: Run, story: Story) -> None:
    ids = [hit["id"] for hit in run("--json", "sessions", "search", "docker").data().json]
    paged = run("--json", "sessions", "search", "docker", "--limit", "2", "--offset", "1").data().json
    assert [hit["id"] for hit in paged] == ids[1:3]


def test_search_explains_itself_on_stderr(run: Run, story: Story) -> None:
    ran = run("--json", "sessions", "search", "--explain", "docker").data()
    assert ran.json
    assert ran.err == "answered by: words (words)\n"


def test_a_search_without_hits_is_no_failure(run: Run, story: Story) -> None:
    ran = run("sessions", "search", "xylophonist").data()
    assert (ran.out, ran.err) == ("", "Nothing found.\n")
    assert run("--json", "sessions", "search", "xylophonist").data().json == []


@pytest.mark.parametrize(
    "query", ['"', "*", "AND", "docker AND OR", "(docker", "docker) OR (", "NEAR(a b)", "content:x"]
)
def test_no_query_makes_the_index_complain(run: Run, story: Story, query: str) -> None:
    ran = run("--json", "sessions", "search", query)
    assert ran.code in {0, 1}
    assert "fts5" not in ran.err
    if ran.code:
        ran.refused(1)


def test_reading_leaves_every_byte(run: Run, story: Story, path: Path) -> None:
    before = files_of(path)
    for arguments in (
        ("sessions", "list"),
        ("sessions", "show", story.session_ids[0]),
        ("sessions", "search", "docker"),
        ("sessions", "export", "-o", "-"),
        ("db", "info"),
    ):
        run(*arguments).data()
    assert files_of(path) == before


def test_commands_work_on_the_store_of_the_home_without_being_told(
    run: Run, story: Story, path: Path, home: Path
) -> None:
    path.rename(home / "state.db")
    assert len(run("--json", "sessions", "list", db=None).data().json) == 14
