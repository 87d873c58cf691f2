"""Tokens and cost, as Hermes Agent reports them (rules USAGE-*, RUNTIME-1 to RUNTIME-4)."""

from dataclasses import fields
from typing import Any

from hermes_store.compat.handle import Handle
from hermes_store.operations.usage import NewUsage
from hermes_store.runtime.usage_queue import flush_seconds, tell_refused
from hermes_store.runtime.usage_reports import UsageReport

_REPORTED = frozenset((*(field.name for field in fields(NewUsage)), "absolute"))


class UsageMethods(Handle):
    """The methods of `SessionDB` that account for what calls of a model have used."""

    def update_token_counts(
        self,
        session_id: str,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        model: str | None = None,
        cache_read_tokens: int | None = 0,
        cache_write_tokens: int | None = 0,
        reasoning_tokens: int | None = 0,
        estimated_cost_usd: float | None = None,
        actual_cost_usd: float | None = None,
        cost_status: str | None = None,
        cost_source: str | None = None,
        pricing_version: str | None = None,
        billing_provider: str | None = None,
        billing_base_url: str | None = None,
        billing_mode: str | None = None,
        api_call_count: int | None = 0,
        absolute: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Add to what a session has used, with `absolute` overwrite it; an unknown session is created.

        Costs in USD. Queued usage is stored first. Rules USAGE-1 to USAGE-5. Raises InvalidValue for an id that is
        None and for what is no number, StoreLocked where queued usage could not be stored; nothing is written then.
        """
        usage = NewUsage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            reasoning_tokens=reasoning_tokens,
            api_call_count=api_call_count,
            estimated_cost_usd=estimated_cost_usd,
            actual_cost_usd=actual_cost_usd,
            cost_status=cost_status,
            cost_source=cost_source,
            pricing_version=pricing_version,
            model=model,
            billing_provider=billing_provider,
            billing_base_url=billing_base_url,
            billing_mode=billing_mode,
        )
        self._store_queued_usage()
        self._write_transcript(lambda unit: unit.record_usage(session_id, usage, absolute=bool(absolute)))

    def queue_token_counts(self, session_id: str, **kwargs: Any) -> None:
        """Report what `update_token_counts` takes, without waiting for the database. Rules RUNTIME-1 and RUNTIME-2.

        What cannot be stored is a warning in the log. After `close()` it is stored at once, and may raise. Raises
        TypeError for a keyword that `update_token_counts` does not have; nothing is queued then.
        """
        for name in kwargs:
            if name not in _REPORTED:
                raise TypeError(f"queue_token_counts() got an unexpected keyword argument {name!r}")
        queue = self._usage_queue()
        if queue is not None:
            given = dict(kwargs)
            absolute = bool(given.pop("absolute", False))
            try:
                report = UsageReport(session_id, NewUsage(**given), absolute)
            except Exception as exc:  # noqa: BLE001 - a report never fails the call of a model that it is about
                tell_refused(session_id, exc)
                return
            if queue.put(report):
                return
        self.update_token_counts(session_id, **kwargs)

    def flush_token_counts(self, timeout: float = 5.0) -> bool:
        """Wait, for `timeout` seconds at most, until queued usage is stored. Rule RUNTIME-3.

        False if something is not stored yet, and at once inside a unit of this thread. A `timeout` of None is the
        default; raises InvalidValue for one that is no number, and nothing else.
        """
        seconds, queue = flush_seconds(timeout), self._queue
        return queue is None or queue.flush(seconds)

    def _store_queued_usage(self) -> None:
        """Before a write that queued usage must not follow. Raises StoreLocked rather than let it be overtaken."""
        queue = self._queue
        if queue is not None:
            queue.settle()
