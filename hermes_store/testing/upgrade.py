"""Checking that an old store survives an upgrade, on a copy (rule TEST-1)."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hermes_store.database.registry import offline_file
from hermes_store.errors import CorruptStore
from hermes_store.fts.state import check_indexes
from hermes_store.repositories import Repositories
from hermes_store.repositories.sessions import SessionFilter
from hermes_store.schema.report import OpenReport
from hermes_store.store import Store


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """What an upgrade of a copy showed: the report of the open, and the problems, none if all is well."""

    report: OpenReport
    sessions: int
    messages: int
    problems: tuple[str, ...]


def check_upgrade(snapshot: Path, folder: Path) -> UpgradeCheck:
    """Copy a closed store into `folder`, open the copy for writing, and compare every message before and after.

    The snapshot is not touched. Raises what `Store.open` raises.
    """
    target = folder / snapshot.name
    with offline_file(snapshot):
        shutil.copyfile(snapshot, target)
        # Committed messages may stand in the log only.
        log = snapshot.with_name(snapshot.name + "-wal")
        if log.exists():
            shutil.copyfile(log, target.with_name(target.name + "-wal"))
    with Store.open(target, read_only=True) as old, old.reader() as reader:
        before = _contents(reader)
    with Store.open(target) as new:
        with new.reader() as reader:
            after = _contents(reader)
        problems = [
            f"session {session_id} changed" for session_id in before if before[session_id] != after.get(session_id)
        ]
        problems.extend(f"session {session_id} appeared" for session_id in after if session_id not in before)
        try:
            new.write(lambda unit: check_indexes(unit.connection))
        except CorruptStore as exc:
            problems.append(f"a search index differs from the messages: {exc}")
        report = new.report
    return UpgradeCheck(report, len(after), sum(len(each) for each in after.values()), tuple(problems))


def _contents(repos: Repositories) -> dict[str, list[tuple[object, ...]]]:
    everything = SessionFilter(include_children=True, include_archived=True)
    return {
        row[0]: repos.messages.rows(row[0], include_inactive=True) for row in repos.sessions.page(everything, limit=-1)
    }
