"""Tokens and cost, as Hermes Agent reports them (rules USAGE-*, RUNTIME-1 to RUNTIME-4)."""

from typing import Any

from hermes_store.compat.handle import Handle
from hermes_store.operations.usage import NewUsage
from hermes_store.runtime.usage_queue import tell_refused
from hermes_store.runtime.usage_reports import UsageReport


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
        None and for what is no number; nothing is written then.
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
        self.flush_token_counts()
        self._write_transcript(lambda unit: unit.record_usage(session_id, usage, absolute=bool(absolute)))

    def queue_token_counts(self, session_id: str, **kwargs: Any) -> None:
        """Report what `update_token_counts` takes, without waiting for the database. Rules RUNTIME-1 and RUNTIME-2.

        What cannot be stored is a warning in the log. After `close()` it is stored at once, and may raise.
        """
        queue = self._usage_queue()
        if queue is not None:
            fields = dict(kwargs)
            absolute = bool(fields.pop("absolute", False))
            try:
                report = UsageReport(session_id, NewUsage(**fields), absolute)
            except Exception as exc:  # noqa: BLE001 - a report never fails the call of a model that it is about
                tell_refused(session_id, exc)
                return
            if queue.put(report):
                return
        self.update_token_counts(session_id, **kwargs)

    def flush_token_counts(self, timeout: float = 5.0) -> bool:
        """Wait, for `timeout` seconds at most, until queued usage is stored; never raises. Rule RUNTIME-3.

        False if something is not stored yet, and at once inside a unit of this thread.
        """
        queue = self._queue
        return queue is None or queue.flush(timeout)
