"""A creation that fails or is killed leaves nothing that stands in the way of the next one (FILE-4)."""

from pathlib import Path

import pytest

import hermes_store.schema.pipeline
from hermes_store import SessionDB, Store
from hermes_store.errors import DiskFull, NotADatabase
from tests.support.drivers import Engine


def test_a_creation_that_fails_leaves_no_file(engine: Engine, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DiskFull

    with monkeypatch.context() as patch:
        patch.setattr(hermes_store.schema.pipeline, "bring_current", fail)
        with pytest.raises(DiskFull):
            Store.open(path)
    left = {each.name for each in path.parent.iterdir()} - {f"{path.name}.quarantine.lock"}
    assert left <= {path.name}
    with SessionDB(path) as db:
        db.create_session("a", "cli")


def test_a_file_whose_creation_was_killed_is_made_again(engine: Engine, path: Path) -> None:
    path.touch()
    path.with_name(f"{path.name}.creating").touch()
    with SessionDB(path) as db:
        db.create_session("a", "cli")
    assert {each.name for each in path.parent.iterdir()} == {path.name, f"{path.name}.quarantine.lock"}


def test_an_empty_file_without_that_mark_is_refused(engine: Engine, path: Path) -> None:
    path.touch()
    with pytest.raises(NotADatabase, match="empty"):
        Store.open(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_store_stays_the_same_when_the_process_changes_its_folder(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "two")
    Store.open("state.db").close()
    monkeypatch.chdir(tmp_path / "one")
    with Store.open("state.db") as store:
        store.write(lambda unit: unit.create_session("a", "cli"))
        monkeypatch.chdir(tmp_path / "two")
        with store.reader() as reader:
            assert reader.sessions.count() == 1
        store.write(lambda unit: unit.append("a", "user", "hello"))
        with store.reader() as reader:
            assert reader.messages.count("a") == 1


def test_a_dangling_link_makes_a_private_file(engine: Engine, tmp_path: Path) -> None:
    link, target = tmp_path / "link.db", tmp_path / "target.db"
    link.symlink_to(target)
    Store.open(link).close()
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
