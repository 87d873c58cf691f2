"""Reports of usage that wait to be stored, and making fewer of them without changing what they add up to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from hermes_store.operations.usage import NewUsage
from hermes_store.repositories.usage import COUNTERS

_COSTS = ("estimated_cost_usd", "actual_cost_usd")
_LABELS = tuple(field.name for field in fields(NewUsage) if field.name not in (*COUNTERS, *_COSTS))
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What calls of one session have used. `reports`: how many reports this one stands for."""

    session_id: str
    usage: NewUsage
    absolute: bool = False
    reports: int = 1


def coalesce(reports: Iterable[UsageReport]) -> list[UsageReport]:
    """The same usage in fewer reports, in the same order. Rule RUNTIME-2."""
    merged: list[UsageReport] = []
    taking_back: set[str] = set()  # sessions whose number of calls may pass 0 again, where the route is open
    for report in reports:
        if (report.usage.api_call_count or 0) < 0:
            taking_back.add(report.session_id)
        is_open = bool(taking_back) and report.session_id in taking_back
        both = _sum(merged[-1], report) if merged and not is_open else None
        if both is None:
            merged.append(report)
        else:
            merged[-1] = both
    return merged


def _sum(first: UsageReport, second: UsageReport) -> UsageReport | None:
    """One report in place of two, or None where that would store something else."""
    if first.absolute or second.absolute or first.session_id != second.session_id:
        return None
    if any(getattr(first.usage, name) != getattr(second.usage, name) for name in _LABELS):
        return None
    sums: dict[str, Any] = {name: getattr(first.usage, name) + getattr(second.usage, name) for name in COUNTERS}
    costs: dict[str, Any] = {name: _cost(getattr(first.usage, name), getattr(second.usage, name)) for name in _COSTS}
    if any(abs(count) > _LARGEST for count in sums.values()):
        return None  # each can be stored, the sum cannot
    if any(cost is not None and not math.isfinite(cost) for cost in costs.values()):
        return None
    usage = replace(first.usage, **sums, **costs)
    # Whether a report makes a usage row, and whether it speaks about the route, depends on what it counts.
    if not _weight(usage) == _weight(first.usage) == _weight(second.usage):
        return None
    return UsageReport(first.session_id, usage, reports=first.reports + second.reports)


def _cost(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _weight(usage: NewUsage) -> tuple[bool, bool]:
    return usage.has_traffic, usage.is_accounted
