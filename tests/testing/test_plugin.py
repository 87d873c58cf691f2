"""The pytest plugin (rules TEST-5 and TEST-6)."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_store import testing
from hermes_store.database import load_driver
from tests.snapshots.build import build_version
from tests.support.drivers import engines

pytest_plugins = ["pytester"]


@pytest.fixture
def old(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `old` of a project: two files of different age, and one that is none."""
    chosen = engines()[-1]
    monkeypatch.setenv("HERMES_STORE_SQLITE_DRIVER", chosen.driver)
    folder = pytester.path / "old"
    folder.mkdir()
    for version in (1, 10):
        build_version(folder / f"v{version}.db", load_driver(chosen.driver).module, version, sessions=2, turns=1)
    (folder / "bad.db").write_text("nothing of the kind")
    return folder


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", *arguments)


def test_every_file_is_a_test_and_a_failure_shows_the_problems_alone(pytester: pytest.Pytester, old: Path) -> None:
    pytester.makepyfile("def test_own(): pass")
    result = run(pytester, "-v", "--hermes-snapshots", "old")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines_random(["old/bad.db::upgrade FAILED*", "old/v1.db::* PASSED*", "old/v10.db::* PASSED*"])
    result.stdout.fnmatch_lines(["*upgrade of bad.db*", "*bad.db is not a database*", "FAILED old/bad.db::upgrade*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*plugin.py*")


def test_it_works_when_nothing_else_is_collected(pytester: pytest.Pytester, old: Path) -> None:
    (old / "bad.db").unlink()
    result = run(pytester, "--hermes-snapshots", "old", "-k", "v10")
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == 0


def test_it_works_with_worker_processes(pytester: pytest.Pytester, old: Path) -> None:
    run(pytester, "-n", "2", "--hermes-snapshots", "old").assert_outcomes(passed=2, failed=1)


def test_one_file_by_name(pytester: pytest.Pytester, old: Path) -> None:
    run(pytester, "--hermes-snapshots", "old", "old/v1.db::upgrade").assert_outcomes(passed=1)


def test_a_folder_outside_of_the_project(pytester: pytest.Pytester, old: Path, tmp_path_factory: object) -> None:
    place = pytester.mkdir("project")
    result = run(pytester, "--rootdir", str(place), "--collect-only", "-q", "--hermes-snapshots", str(old), str(place))
    result.stdout.fnmatch_lines([f"{old.as_posix()}/bad.db::upgrade", f"{old.as_posix()}/v1.db::upgrade"])


def test_a_folder_of_the_configuration_is_looked_for_from_the_root(
    pytester: pytest.Pytester, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old / "bad.db").unlink()
    pytester.makeini("[pytest]\naddopts = --hermes-snapshots old")
    below = pytester.mkdir("below")
    mine = pytester.mkdir("below/mine")
    (old / "v10.db").rename(mine / "v10.db")
    monkeypatch.chdir(below)
    run(pytester, "-v").assert_outcomes(passed=1)
    run(pytester, "-v", "--hermes-snapshots", "mine").assert_outcomes(passed=2)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--hermes-snapshots=mine")
    run(pytester, "-v").assert_outcomes(passed=2)
    run(pytester, "-n", "2").assert_outcomes(passed=2)


@pytest.mark.parametrize("folder", ["missing", "empty"])
def test_a_folder_without_files_is_an_error(pytester: pytest.Pytester, folder: str) -> None:
    pytester.mkdir("empty")
    result = run(pytester, "--hermes-snapshots", folder)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--hermes-snapshots: *"])


def test_the_fixtures(pytester: pytest.Pytester, old: Path) -> None:
    pytester.makepyfile(
        """
        import subprocess, sys, threading
        from pathlib import Path
        from hermes_store import SessionDB, Store, get_hermes_home
        from hermes_store.testing.plugin import CONVERSATION

        def test_home(hermes_home):
            assert get_hermes_home() == hermes_home
            SessionDB().close()
            assert (hermes_home / "state.db").exists()

        def test_home_elsewhere(hermes_home):
            found = []
            thread = threading.Thread(target=lambda: found.append(get_hermes_home()))
            thread.start()
            thread.join()
            script = "from hermes_store import get_hermes_home; print(get_hermes_home())"
            said = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
            assert found == [hermes_home] == [Path(said.strip())]

        def test_store(hermes_store):
            assert hermes_store.path == get_hermes_home() / "state.db"
            with hermes_store.reader() as reader:
                assert reader.sessions.count() == 0

        def test_seeded(seeded_hermes_store):
            with seeded_hermes_store.reader() as reader:
                session = reader.sessions.get("seeded")
                assert (session.title, session.message_count) == ("Fix Docker Build", len(CONVERSATION))
                assert [hit.session_id for hit in reader.search.messages("docker")] == ["seeded"]
                assert reader.search.messages("数据库")

        def test_snapshot(hermes_snapshot):
            original = Path("old/v1.db").resolve()
            before = original.read_bytes()
            copy, other = hermes_snapshot(original), hermes_snapshot("old/v1.db")
            assert copy != other
            with Store.open(copy, create=False) as store:
                assert store.report.adopted
            assert other.read_bytes() == original.read_bytes() == before
        """
    )
    run(pytester, "-W", "error").assert_outcomes(passed=5)


def test_loading_the_plugin_imports_nothing_of_the_package() -> None:
    script = (
        "import sys, hermes_store.testing.plugin, hermes_store.testing\n"
        "print(*sorted(name for name in sys.modules if name.startswith(('hermes_store', 'sqlalchemy', 'sqlite3'))))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["hermes_store", "hermes_store.testing", "hermes_store.testing.plugin"]


def test_pytest_finds_the_plugin_by_its_entry_point(pytestconfig: pytest.Config) -> None:
    (entry,) = (each for each in importlib.metadata.entry_points(group="pytest11") if each.name == "hermes-store")
    assert pytestconfig.pluginmanager.get_plugin("hermes-store") is entry.load()


def test_check_upgrade_is_there_for_tests_of_others(old: Path) -> None:
    assert testing.check_upgrade(str(old / "v1.db")).problems == ()
    with pytest.raises(AssertionError):
        assert not testing.check_upgrade(old / "bad.db").problems
    assert {"UpgradeCheck", "check_upgrade"} <= set(dir(testing))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = testing.nonsense
