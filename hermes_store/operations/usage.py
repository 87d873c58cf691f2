"""Accounting for tokens and cost: the totals of a session, its route, and its usage rows (rules USAGE-*)."""

import math
import operator
from dataclasses import asdict, dataclass
from typing import Any

from hermes_store.conversation.content import text_or_none
from hermes_store.errors import InvalidValue
from hermes_store.operations.sessions import create_session, session_values
from hermes_store.repositories import Repositories
from hermes_store.repositories.usage import COUNTERS, Route

UNKNOWN = "unknown"
"""The source of a session that is known from its usage alone, and the model of usage that names none."""

_COSTS = ("estimated_cost_usd", "actual_cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUsage:
    """What calls of a model have used: counts of tokens and calls, costs in USD, and over which route.

    Counts and costs may be negative, which takes back, and may be given as text; None counts as 0. Raises InvalidValue
    for a count or cost that is no number; storing it then raises no such thing. Rule USAGE-1.
    """

    input_tokens: int | None = 0
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    api_call_count: int | None = 0
    estimated_cost_usd: float | None = None
    actual_cost_usd: float | None = None
    cost_status: str | None = None
    cost_source: str | None = None
    pricing_version: str | None = None
    model: str | None = None
    billing_provider: str | None = None
    billing_base_url: str | None = None
    billing_mode: str | None = None

    def __post_init__(self) -> None:
        cleaned: dict[str, Any] = {name: _count(name, getattr(self, name)) for name in COUNTERS}
        given = {name: _cost(name, getattr(self, name)) for name in _COSTS}
        for name in ("cost_status", "cost_source", "pricing_version"):
            cleaned[name] = text_or_none(getattr(self, name))
        if any(cost is not None and not math.isfinite(cost) for cost in given.values()):
            # A price that nobody can add up must not cost the tokens.
            given = {name: cost if cost is None or math.isfinite(cost) else None for name, cost in given.items()}
            cleaned.update(cost_status=UNKNOWN, cost_source="none")
        for name in Route._fields:
            # An empty name would look like a known one.
            cleaned[name] = text_or_none(getattr(self, name)) or None
        for name, value in {**cleaned, **given}.items():
            object.__setattr__(self, name, value)

    @property
    def route(self) -> Route:
        """Model and billing."""
        return Route(self.model, self.billing_provider, self.billing_base_url, self.billing_mode)

    @property
    def has_traffic(self) -> bool:
        """Whether anything but an actual cost is reported: such a report makes a usage row."""
        return any(getattr(self, name) for name in COUNTERS) or bool(self.estimated_cost_usd)

    @property
    def is_accounted(self) -> bool:
        """Whether anything at all is reported: such a report says something about the route."""
        return self.has_traffic or bool(self.actual_cost_usd)


def record_usage(repos: Repositories, session_id: str, usage: NewUsage, now: float, *, absolute: bool = False) -> None:
    """Add to the totals of a session and to its usage row, or overwrite the totals. Rules USAGE-1 to USAGE-5.

    Raises InvalidValue for an id that is None or holds a NUL, and for numbers beyond 64 bits.
    """
    new = session_values(session_id, UNKNOWN, {"model": usage.model}, now)
    session_id = new["id"]
    stored = repos.usage.route(session_id)
    if stored is None:
        create_session(repos, new)
        stored = (0, Route(None, None, None, None))
    route = route_after(*stored, usage)
    amounts = asdict(usage)
    amounts["estimated_cost_usd"] = usage.estimated_cost_usd or 0.0
    if absolute:
        # Nothing says which part of a total is new: usage rows know what was added, call by call.
        repos.usage.set_on_session(session_id, route, amounts)
        return
    repos.usage.add_to_session(session_id, route, amounts)
    if usage.has_traffic:
        amounts["actual_cost_usd"] = usage.actual_cost_usd or 0.0
        repos.usage.add_to_row(session_id, _row_route(usage.route, route), "", amounts, now)


def route_after(calls: int, stored: Route, usage: NewUsage) -> Route:
    """The route of a session that has had so many calls, after one more report. Rules USAGE-3 and USAGE-4."""
    given = usage.route
    if stored.model is None:
        stored = stored._replace(model=given.model)
    if not usage.is_accounted:
        return stored
    if calls == 0 and given.model and given.billing_provider and given[:2] != stored[:2]:
        # The session was made with one model, and another one answered.
        return given
    return Route(*(new if old is None else old for old, new in zip(stored, given, strict=True)))


def _row_route(given: Route, stored: Route) -> Route:
    model, *billing = (new or old for new, old in zip(given, stored, strict=True))
    return Route(model or UNKNOWN, *(part or "" for part in billing))


def _count(name: str, value: object) -> int:
    if value is None:
        return 0
    try:
        return operator.index(value)  # type: ignore[arg-type]  # what has no index raises
    except TypeError:
        pass
    try:
        return round(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(f"{name} is a {type(value).__name__} that is no count; give a number") from None


def _cost(name: str, value: object) -> float | None:
    if value is None:
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(f"{name} is a {type(value).__name__} that is no cost; give a number of USD") from None
