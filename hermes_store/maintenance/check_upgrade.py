"""Checking that old stores survive an upgrade, on copies (rules TEST-1 to TEST-3)."""

import contextlib
import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_store.database.connection import Connection
from hermes_store.database.driver import choose_driver
from hermes_store.database.health import inspect_file, refuse
from hermes_store.database.registry import offline_file
from hermes_store.errors import HermesStoreError, OpenFailed
from hermes_store.fts.layouts import LEGACY, layouts, objects
from hermes_store.maintenance import upgrade_child
from hermes_store.maintenance.upgrade_content import compare_content
from hermes_store.maintenance.upgrade_exceptions import DECLARED, Context
from hermes_store.maintenance.upgrade_indexes import index_problems
from hermes_store.maintenance.upgrade_probes import (
    can_append,
    header_of,
    header_problems,
    integrity_problems,
    opened,
    orphans,
    schema_problems,
    search_problems,
    second_open_problems,
    write_problems,
)
from hermes_store.maintenance.upgrade_sessions import SessionEffects
from hermes_store.maintenance.upgrade_tables import LEFTOVERS, both_files, tables_of
from hermes_store.maintenance.upgrade_usage import UsageEffects
from hermes_store.schema.describe import describe_schema
from hermes_store.schema.recognise import Recognised, recognise, stamp_by_shape
from hermes_store.schema.report import OpenReport
from hermes_store.schema.versions import HEAD_REVISION, REVISIONS, STAMP, revision_of_stamp, revisions_after
from hermes_store.settings import Settings
from hermes_store.store import Store

if TYPE_CHECKING:
    from hermes_store.database.driver import Driver

SIDECARS = ("-wal", "-journal")
_GATEWAY_FILE = Path("sessions") / "sessions.json"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class UsedException:
    """A declared exception that an upgrade made use of: how often, and why that is right."""

    name: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """What the upgrade of a copy showed; all is well if there are no problems.

    stamp: of the file as it was found. seconds: of the open that upgraded. peak: bytes of memory that it took beyond
    what the imports took, None where the platform does not say. report: what `store.report.as_dict()` was.
    """

    path: Path
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    exceptions: tuple[UsedException, ...] = ()
    stamp: int | None = None
    revision: str | None = None
    sessions: int = 0
    messages: int = 0
    seconds: float | None = None
    peak: int | None = None
    report: Mapping[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**dataclasses.asdict(self), "path": str(self.path), "ok": self.ok}


def find_snapshots(paths: Iterable[Path]) -> list[Path]:
    """The files that are named, and every `*.db` of the folders that are, `v2` before `v10`.

    Raises OpenFailed for a path that does not exist, and for a folder without any.
    """
    found = []
    for path in paths:
        try:
            found.extend(_found_at(path))
        except (OSError, ValueError) as exc:
            raise OpenFailed(f"{path} cannot be looked at: {exc}") from exc
    return found


def _found_at(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise OpenFailed(f"there is no file {path}")
        return [path]
    inside = sorted((each for each in path.iterdir() if each.suffix == ".db" and not each.is_dir()), key=_natural)
    if not inside:
        raise OpenFailed(f"there is no *.db file in {path}")
    return inside


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def check_upgrade(snapshot: Path, folder: Path | None = None) -> UpgradeCheck:
    """Upgrade a copy of a closed store and verify it; the snapshot is only read. Rule TEST-1.

    `folder`: where the copies are kept, by default a temporary folder that is removed. Whatever goes wrong with a file
    is a problem of the result. Raises DriverUnavailable, InvalidValue for the settings of the environment alone.
    """
    driver = choose_driver(Settings.from_environment().driver)
    findings = _Findings(snapshot)
    try:
        with contextlib.ExitStack() as stack:
            if folder is None:
                temporary = tempfile.TemporaryDirectory(prefix="hermes-store-check-", ignore_cleanup_errors=True)
                folder = Path(stack.enter_context(temporary))
            _check(findings, snapshot, folder, driver)
    except Exception as exc:  # noqa: BLE001 - one odd file must not keep the others from being checked
        findings.problems.append(_said(exc))
    return findings.result()


def _check(findings: "_Findings", snapshot: Path, folder: Path, driver: "Driver") -> None:
    """Copy, upgrade, verify. What it raises says that the rest makes no sense."""
    before, after = folder / "before" / snapshot.name, folder / "after" / snapshot.name
    digests = copy_snapshot(snapshot, before, after)
    findings.before(before, driver)
    findings.upgrade(after, folder)
    _verify(findings, before, after, driver)
    with findings.step("the snapshot"):
        if _digests(snapshot) != digests:
            findings.problems.append("the snapshot itself changed while its copy was checked")


def verify_upgrade(before: Path, after: Path, report: OpenReport) -> UpgradeCheck:
    """Verify a file that was upgraded already against a copy of how it was. `report`: what the upgrade said it did.

    Both are closed; `after` is written to, and what is written is deleted again. Beside `before` has to stand what
    the gateway kept beside the file, `sessions/sessions.json`.
    """
    driver = choose_driver(Settings.from_environment().driver)
    findings = _Findings(after)
    findings.child = {"report": report.as_dict()}
    try:
        findings.before(before, driver)
    except Exception as exc:  # noqa: BLE001 - whatever is wrong with a file is a problem of it
        findings.problems.append(_said(exc))
    else:
        _verify(findings, before, after, driver)
    return findings.result()


def _verify(findings: "_Findings", before: Path, after: Path, driver: "Driver") -> None:
    """Compare a file as it was with itself upgraded, then try the upgraded one. Problems are added to the findings."""
    with findings.step("integrity"), opened(after, driver) as connection:
        findings.problems.extend(integrity_problems(connection))
    with findings.step("header"), opened(after, driver) as connection:
        findings.problems.extend(header_problems(findings.header, header_of(connection)))
    with findings.step("foreign keys"), opened(after, driver) as connection:
        findings.foreign_keys(orphans(connection))
    with findings.step("search indexes"), opened(after, driver) as connection:
        findings.add(*index_problems(connection))
    with findings.step("schema"), opened(after, driver) as connection:
        findings.add(*schema_problems(connection, findings.lines))
    with findings.step("content"):
        findings.content(before, after, driver)
    with findings.step("second open"):
        findings.problems.extend(second_open_problems(after, driver))
    with findings.step("search"):
        findings.add(*search_problems(after, driver))
    with findings.step("write"):
        with opened(after, driver) as connection:
            if not can_append(connection):
                findings.notes.append("nothing was written: a message has the highest id that there is")
                return
        with Store.open(after, create=False) as store:
            findings.problems.extend(write_problems(store))
        with opened(after, driver) as connection:
            problems, _ = index_problems(connection)
            findings.problems.extend(f"after a write: {each}" for each in problems)


class _Findings:
    """What one check has found so far."""

    def __init__(self, snapshot: Path) -> None:
        self.snapshot = snapshot
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.used: dict[str, UsedException] = {}
        self.stamp: int | None = None
        self.due: frozenset[str] = frozenset()
        self.marks_layout = False
        self.header: dict[str, object] = {}
        self.lines: list[str] = []
        self.orphans: dict[tuple[str, str], int] = {}
        self.sessions = self.messages = 0
        self.child: dict[str, Any] = {}

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Run one part of the check; what it raises is a problem, and the other parts still run."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - whatever breaks over an upgraded file is what the check is for
            self.problems.append(f"{name}: {_said(exc)}")

    def add(self, problems: list[str], notes: list[str]) -> None:
        """Take over problems and notes."""
        self.problems.extend(problems)
        self.notes.extend(notes)

    def before(self, path: Path, driver: "Driver") -> None:
        """Look at the file as it is; opening the copy for writing plays back what stands in a log beside it."""
        refuse(path, inspect_file(path))
        with opened(path, driver) as connection:
            found = recognise(connection, self.snapshot.name)
            self.stamp = found.stamp
            self.due = _due(connection, found)
            is_joined = any(layout in LEGACY for layout in layouts(objects(connection)).values())
            self.marks_layout = "0023" in self.due and is_joined and found.stamp is not None and found.stamp < STAMP
            self.header = header_of(connection)
            self.lines = describe_schema(connection)
            self.orphans = orphans(connection)

    def upgrade(self, path: Path, folder: Path) -> None:
        """Open the copy for writing in a process of its own. Raises OpenFailed with what went wrong there."""
        # Nothing of the home in force may be read or moved, and a copy named state.db is not its default store.
        home = folder / "home"
        home.mkdir()
        done = subprocess.run(  # noqa: S603 - this interpreter, a module of ours
            [sys.executable, *upgrade_child.command(path)],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=upgrade_child.environment(home),
        )
        try:
            said = json.loads(done.stdout)
        except ValueError:
            said = None
        if not isinstance(said, dict) or not said.keys() & {"report", "error"}:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
            raise OpenFailed(f"the upgrade ended with {how}: {lines[-1] if lines else 'it said nothing'}")
        if "error" in said:
            raise OpenFailed(said["error"])
        self.child = said

    def foreign_keys(self, after: dict[tuple[str, str], int]) -> None:
        """No row may have lost what it refers to."""
        known: dict[tuple[str, str], int] = {}
        for (table, parent), count in self.orphans.items():
            key = (LEFTOVERS.get(table, table), parent)
            known[key] = known.get(key, 0) + count
        for (table, parent), count in after.items():
            more = count - known.get((table, parent), 0)
            if more > 0:
                self.problems.append(f"foreign keys: {more} more rows of {table} name a missing row of {parent}")
            else:
                self.notes.append(f"{count} rows of {table} named a missing row of {parent} before; they are kept")

    def content(self, before: Path, after: Path, driver: "Driver") -> None:
        """Compare every row, and count."""
        report = self.child.get("report", {})
        with both_files(before, after, driver) as connection:
            context = Context(
                connection,
                sessions=SessionEffects(connection, self.due, before.parent / _GATEWAY_FILE),
                usage=UsageEffects(connection, tables_of(connection, "before"), backfills="0020" in self.due),
                titles_cleared=frozenset(report.get("titles_cleared", ())),
                search_rebuilt=bool(report.get("search_rebuilt") or report.get("search_pending")),
                marks_layout=self.marks_layout,
            )
            found = compare_content(connection, context, changed=bool(report.get("changed") or self.due))
            counts = connection.sql("SELECT (SELECT count(*) FROM main.sessions), (SELECT count(*) FROM main.messages)")
        self.sessions, self.messages = counts[0]
        self.problems.extend(found.problems)
        reasons = {each.name: each.reason for each in DECLARED}
        self.used.update({name: UsedException(name, count, reasons[name]) for name, count in found.used.items()})
        for table, count in sorted(found.leftovers.items()):
            if count:
                self.notes.append(f"{count} rows of {table}, which an interrupted rebuild left, were taken over")

    def result(self) -> UpgradeCheck:
        """What the caller gets."""
        report = self.child.get("report")
        return UpgradeCheck(
            path=self.snapshot,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            exceptions=tuple(sorted(self.used.values(), key=lambda each: each.name)),
            stamp=self.stamp,
            revision=report["revision"] if report else None,
            sessions=self.sessions,
            messages=self.messages,
            seconds=self.child.get("seconds"),
            peak=self.child.get("peak"),
            report=report,
        )


def _due(connection: Connection, found: Recognised) -> frozenset[str]:
    """The revisions that a file needs, told from the file alone; those that heal a table may run besides."""
    if found.revision in REVISIONS:
        return frozenset(revisions_after(found.revision or HEAD_REVISION))
    stamp = found.stamp
    if stamp is None and found.has_transcripts:
        stamp = stamp_by_shape(connection, found.tables)
    return frozenset() if stamp is None else frozenset(revisions_after(revision_of_stamp(stamp)))


def _said(error: BaseException) -> str:
    """One line for an error; ours speak for themselves."""
    if isinstance(error, OSError) and not isinstance(error, HermesStoreError):
        return f"{error.filename or 'file'}: {error.strerror or error}"
    return str(error) if isinstance(error, HermesStoreError) else f"{type(error).__name__}: {error}"


# -- copies -------------------------------------------------------------------------------------------------------


def _files(snapshot: Path) -> list[tuple[str, Path]]:
    """The file and those that SQLite reads with it, each with what is appended to its name."""
    # A link's log stands beside the file that it leads to.
    real = snapshot.resolve()
    beside = [(suffix, real.with_name(real.name + suffix)) for suffix in SIDECARS]
    return [("", real), *((suffix, path) for suffix, path in beside if path.exists())]


def copy_snapshot(snapshot: Path, *targets: Path) -> dict[str, str]:
    """Copy a closed store with what SQLite and the gateway keep beside it, each time into a folder that is made.

    Returns the SHA-256 of the file, and of its log or journal, by what is appended to the name. Raises NotADatabase,
    OpenFailed (also while this process has the file open), OSError.
    """
    refuse(snapshot, inspect_file(snapshot))
    for target in targets:
        target.parent.mkdir(parents=True)
    digests = {}
    with offline_file(snapshot.resolve()):
        for suffix, file in _files(snapshot):
            with contextlib.ExitStack() as stack:
                source = stack.enter_context(file.open("rb"))
                outs = [stack.enter_context(each.with_name(each.name + suffix).open("wb")) for each in targets]
                digests[suffix] = _pump(source.read, [out.write for out in outs])
    gateway = snapshot.resolve().parent / _GATEWAY_FILE
    if gateway.is_file():
        for target in targets:
            (target.parent / _GATEWAY_FILE).parent.mkdir()
            shutil.copyfile(gateway, target.parent / _GATEWAY_FILE)
    return digests


def _digests(snapshot: Path) -> dict[str, str]:
    digests = {}
    with offline_file(snapshot.resolve()):
        for suffix, file in _files(snapshot):
            with file.open("rb") as source:
                digests[suffix] = _pump(source.read, [])
    return digests


def _pump(read: Callable[[int], bytes], writes: list[Callable[[bytes], object]]) -> str:
    digest = hashlib.sha256()
    while block := read(_BLOCK):
        digest.update(block)
        for write in writes:
            write(block)
    return digest.hexdigest()
