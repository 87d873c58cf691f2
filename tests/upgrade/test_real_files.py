"""Files that the releases themselves wrote: each is opened, kept whole, and used.

Set HERMES_SNAPSHOTS to a folder of `*.db` files; they are copied, never touched.
"""

import os
import shutil
from pathlib import Path

import pytest

from hermes_store import SessionDB
from tests.schema.inspecting import opened, rows
from tests.upgrade.files import check_quiet, check_sound, kept, upgrade, use

FOLDER = os.environ.get("HERMES_SNAPSHOTS")
FILES = sorted(Path(FOLDER).glob("*.db")) if FOLDER else []
NONE = pytest.param(None, marks=pytest.mark.skip(reason="HERMES_SNAPSHOTS names no folder of real files"))


@pytest.mark.parametrize("original", FILES or [NONE], ids=lambda file: file.stem if file else "none")
def test_a_real_file_comes_home_whole_and_is_used(path: Path, driver: str, original: Path) -> None:
    shutil.copyfile(original, path)
    with opened(path, driver) as raw:
        ids = [row[0] for row in rows(raw, "SELECT id FROM sessions ORDER BY started_at, id")]
        (count,) = rows(raw, "SELECT count(*) FROM messages")
        stamp = rows(raw, "SELECT version FROM schema_version")[0][0]
    assert ids
    old = ("sessions.model_config",) if stamp < 16 else ()
    filled = {"session_model_usage.billing_base_url": "", "messages.active": 1}
    with kept(path, driver, but=old, filled=filled):
        report = upgrade(path)
    assert (report.stamp, report.revision) == (stamp, "0023")
    check_sound(path, driver, ids[0])
    check_quiet(path, driver)
    with SessionDB(path) as db:
        assert sum(len(db.get_messages(each, include_inactive=True)) for each in ids) == count[0]
    use(path, ids[0])
    with opened(path, driver) as raw:
        left = [row[0] for row in rows(raw, "SELECT id FROM sessions ORDER BY id")]
    assert ids[0] not in left
    with SessionDB(path) as db:
        db.create_session("another", "cli")
    check_sound(path, driver, "another")
    check_quiet(path, driver)
