"""What a write door does when a unit meets damage: it mends indexes, then gives the file up (rules DAMAGE-4 to 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hermes_store.database import condition
from hermes_store.database.translation import INDEX_IN_PARTS, INDEXES_UNAVAILABLE
from hermes_store.errors import (
    CorruptStore,
    HermesStoreError,
    IndexDamaged,
    NotADatabase,
    OperationFailed,
    StateDbCorruptError,
    UnitLost,
)
from hermes_store.events import Teller

if TYPE_CHECKING:
    from hermes_store.database.connection import Connection
    from hermes_store.database.generation import FileGuard


@dataclass(frozen=True, slots=True)
class Cure:
    """Something that was done about a damaged index; not `complete` where searching is slow until a rebuild."""

    text: str
    complete: bool = True


class IndexKeeper(Protocol):
    """What the doors know of the search indexes, which live a floor above."""

    def seal(self, connection: "Connection") -> None:
        """Before COMMIT: write what the indexes hold back, so that damage shows while the unit lives, and do upkeep.

        Raises CorruptStore.
        """

    def cure(self, connection: "Connection", *, by_replacing: bool, fill: bool) -> Sequence[Cure]:
        """Mend damaged indexes inside a unit; says what was done, nothing if they are sound.

        by_replacing: do not even look at them, put new ones in their place; fill: with what the messages hold, where
        these are few. Raises CorruptStore.
        """

    def shaken(self) -> None:
        """A unit was rolled back."""

    def wants_upkeep(self, connection: "Connection") -> bool:
        """Whether there is upkeep to do before the handle is closed."""

    def upkeep(self, connection: "Connection") -> None:
        """Do it, inside an open unit."""


_NONE, _MEND, _REPLACE, _EMPTY = range(4)


def is_damage(error: BaseException | None) -> bool:
    """Whether an error may be that of a damaged index, or of one that cannot be used here, or of a damaged file."""
    if isinstance(error, OperationFailed):
        text = str(error).lower()
        return INDEXES_UNAVAILABLE.search(text) is not None or INDEX_IN_PARTS.search(text) is not None
    return isinstance(error, (CorruptStore, NotADatabase))


class Damage:
    """What is known of damage in the file of one writer, and what was tried against it."""

    def __init__(self, keeper: IndexKeeper | None, guard: "FileGuard | None", teller: Teller) -> None:
        self._keeper = keeper
        self._guard = guard
        self._teller = teller
        self._remedy = _NONE
        self._cause: HermesStoreError | None = None
        self._is_mending = False
        self._mended = False
        self._unmended: HermesStoreError | None = None
        self._done: list[Cure] = []
        self._verdict: StateDbCorruptError | None = None
        self.is_serving = False  # while a store is being opened, its opener hears of damage, and nobody else

    @property
    def is_final(self) -> bool:
        """True once the file itself was found damaged."""
        return self._verdict is not None or (self._guard is not None and condition.is_corrupt(self._guard.main))

    def refuse(self) -> None:
        """Raise StateDbCorruptError if the file itself was found damaged, by this handle or another of the process."""
        if self.is_final:
            raise self._error(self._verdict)

    def begin(self, connection: "Connection", *, failures: int = 0) -> None:
        """A unit has begun: mend first, if an earlier one met damage. Raises CorruptStore.

        failures: how often this very unit has met damage; what other threads have done meanwhile did not help it.
        """
        self._remedy = max(self._remedy, min(failures, _EMPTY))
        self._mended = False
        self._unmended = None
        self._done = []
        if self._remedy != _NONE:
            # Where nothing is found to be wrong, another process may have mended it: the body tells.
            self._cure(connection, by_replacing=self._remedy >= _REPLACE, fill=self._remedy != _EMPTY)

    def met(self, connection: "Connection", failure: HermesStoreError) -> bool:
        """A statement of the unit met damage; True if it was mended in place."""
        if self._is_mending:
            return False  # whoever mends deals with it
        if not self._mended and self._keeper is not None:
            try:
                self._cure(connection, by_replacing=False, fill=True)
            except HermesStoreError:
                # What made it fail is what the caller hears; the unit is run again with a stronger remedy.
                self._done = []
            if self._done:
                return True
        self._unmended = failure
        return False

    def _cure(self, connection: "Connection", *, by_replacing: bool, fill: bool) -> None:
        assert self._keeper is not None  # noqa: S101 - without one there is no remedy
        self._mended = self._is_mending = True
        try:
            self._done.extend(self._keeper.cure(connection, by_replacing=by_replacing, fill=fill))
        finally:
            self._is_mending = False

    def require_whole(self) -> None:
        """Raise the damage that the unit has met and that nobody could mend: an index lacks what it was told."""
        if self._unmended is not None:
            raise self._unmended

    def committed(self) -> None:
        """The unit is in the file."""
        if self._remedy != _NONE or self._done:
            self._remedy, self._cause = _NONE, None
            done, self._done = self._done, []
            for cure in done:
                self._teller.repaired("search index", cure.text)
                if not cure.complete:
                    self._teller.degraded("search", f"{cure.text}; optimize-storage fills it")

    def failed(self, error: BaseException, connection: "Connection") -> HermesStoreError | None:
        """The unit was rolled back because of this error; returns the damage that it met, None for any other error.

        Then the next try begins with the next remedy. An error that came from elsewhere, as from another store that the
        body had to do with, says nothing of this one. Raises StateDbCorruptError when there is no remedy left.
        """
        cause = error.reason if isinstance(error, UnitLost) else error
        if not isinstance(cause, HermesStoreError) or not is_damage(cause) or isinstance(cause, StateDbCorruptError):
            return None
        ours = (self._unmended, self._cause, connection.lost_to)
        if not connection.has_failed_with(cause) and not any(cause is each for each in ours):
            return None
        self._done = []
        if self._cause is None:
            self._cause = cause
        if isinstance(cause, NotADatabase) or self._keeper is None or self._remedy == _EMPTY:
            first, self._cause, self._remedy = self._cause, None, _NONE
            if not self.is_serving or _is_elsewhere(first, connection):
                raise first
            self._verdict = self._error(first)
            if self._guard is not None:
                condition.note_corrupt(self._guard.main)
            self._teller.degraded("store", "the file itself is damaged")
            raise self._verdict from first
        self._remedy += 1
        return cause

    def _error(self, cause: HermesStoreError | None) -> StateDbCorruptError:
        where = f": {self._guard.path}" if self._guard is not None else ""
        error = StateDbCorruptError(
            f"database disk image is malformed{where} is damaged itself, not only a search index; nothing more is "
            f"written into it by this process; make a copy of it and of its log, and recover the sessions from that"
        )
        for name in ("sqlite_errorcode", "sqlite_errorname"):
            if hasattr(cause, name):
                setattr(error, name, getattr(cause, name))
        return error


def _is_elsewhere(cause: HermesStoreError, connection: "Connection") -> bool:
    """Whether the damage is not in the file itself: it may be in what an application keeps there."""
    if isinstance(cause, OperationFailed):
        return True
    sound = condition.looks_sound(connection)
    return isinstance(cause, IndexDamaged) if sound is None else sound
