"""`hermes-store db check-upgrade` (rule TEST-4)."""

from pathlib import Path

import pytest

from hermes_store.database import load_driver
from hermes_store.maintenance.check_upgrade import UpgradeCheck, UsedException
from tests.cli.running import Run, run_apart
from tests.snapshots.build import build_version
from tests.support.drivers import Engine


@pytest.fixture
def folder(tmp_path: Path, any_engine: Engine) -> Path:
    """A folder with a file of today and an old one."""
    place = tmp_path / "old"
    place.mkdir()
    for version, variant in ((10, None), (23, "late")):
        build_version(
            place / f"v{version}.db",
            load_driver(any_engine.driver).module,
            version,
            variant=variant,
            sessions=2,
            turns=2,
        )
    return place


def test_a_table_has_a_line_for_every_file(run: Run, folder: Path) -> None:
    ran = run("db", "check-upgrade", folder, db=None).data()
    header, *lines = ran.lines
    assert header.split() == ["file", "stamp", "revision", "messages", "seconds", "memory", "verdict"]
    assert [line.split()[0] for line in lines] == ["v10.db", "v23.db"]
    assert all(line.endswith("ok") for line in lines)
    assert ran.err == ""


def test_a_failure_stands_below_the_table_and_ends_with_1(run: Run, folder: Path) -> None:
    (folder / "v11.db").write_bytes(b"nothing of the kind\n" * 20)
    (folder / "v10.db").unlink()
    ran = run("db", "check-upgrade", folder, db=None)
    assert ran.code == 1
    _, bad, good, problem = ran.lines
    assert (bad.split()[0], bad.split()[-1]) == ("v11.db", "FAILED")
    assert good.endswith("ok")
    assert problem.startswith("v11.db: FAILED: ")
    assert "is not a database" in problem
    assert ran.err == "1 of 2 files do not pass\n"


def test_files_of_one_name_are_told_apart_by_their_folders(run: Run, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "v23.db").write_bytes(b"nothing of the kind\n" * 20)
    ran = run("db", "check-upgrade", folder / "v10.db", folder / "v23.db", other / "v23.db", other / "v23.db", db=None)
    names = [line.split()[0] for line in ran.lines[1:5]]
    old, bad = str(Path("old", "v23.db")), str(Path("other", "v23.db"))
    assert names == ["v10.db", old, bad, bad]
    assert [line.split(": ")[0] for line in ran.lines[5:]] == [bad, bad]


def test_a_file_that_breaks_the_check_does_not_keep_the_others_from_it(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("hermes_store.maintenance.check_upgrade.copy_snapshot", breaks)
    ran = run("db", "check-upgrade", folder, db=None)
    assert (ran.code, len(ran.lines)) == (1, 5)
    assert all("RuntimeError: odd" in line for line in ran.lines[3:])


def test_verbose_says_what_was_changed_on_purpose(run: Run, folder: Path) -> None:
    lines = run("db", "check-upgrade", "--verbose", folder / "v10.db", db=None).data().lines
    assert any(line.startswith("v10.db: stamp raised, 1 times: ") for line in lines)
    assert any(line.startswith("v10.db: note: ") for line in lines)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_json_is_one_document(run: Run, folder: Path, place: str) -> None:
    (folder / "v10.db").unlink()
    command: list[str | Path] = ["db", "check-upgrade", folder]
    ran = run(*(["--json", *command] if place == "before" else [*command, "--json"]), db=None).data()
    assert ran.err == ""
    assert ran.json["ok"] is True
    (check,) = ran.json["checks"]
    assert (check["path"], check["ok"], check["stamp"]) == (str(folder / "v23.db"), True, 23)
    assert check["report"]["adopted"] is True
    assert {each["name"] for each in check["exceptions"]} >= {"revision noted", "mark left"}


def test_json_of_a_failure_ends_with_1(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.db").touch()
    ran = run("db", "check-upgrade", tmp_path / "bad.db", "--json", db=None)
    assert ran.code == 1
    assert ran.json["ok"] is False
    assert ran.json["checks"][0]["problems"]


@pytest.mark.parametrize("arguments", [("missing.db",), ("empty",), (), ("bad.db", "missing.db")])
def test_nothing_to_check_is_a_matter_of_usage(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.db").touch()
    ran = run("db", "check-upgrade", *(tmp_path / name for name in arguments), db=None)
    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err


def test_what_nobody_knows_is_a_dash_and_names_do_no_harm(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "evil\x1b[2J\n.db"
    path.touch()
    found = UpgradeCheck(path, problems=("a\x1bb\nc",), exceptions=(UsedException("x", 2, "y"),))
    monkeypatch.setattr("hermes_store.cli.check_upgrade.check_upgrade", lambda _: found)
    ran = run("db", "check-upgrade", path, db=None)
    assert "\x1b" not in ran.out + ran.err
    assert len(ran.lines) == 3
    assert ran.lines[1].split()[-6:] == ["-", "-", "0", "-", "-", "FAILED"]


def test_the_command_as_it_is_installed(folder: Path) -> None:
    ran = run_apart("db", "check-upgrade", folder / "v23.db", db=None).data()
    assert ran.lines[1].endswith("ok")
