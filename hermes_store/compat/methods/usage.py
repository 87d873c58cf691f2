"""Token and cost accounting, direct and queued."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "update_token_counts",
        (
            "(session_id, input_tokens=0, output_tokens=0, model=None, cache_read_tokens=0, "
            "cache_write_tokens=0, reasoning_tokens=0, estimated_cost_usd=None, actual_cost_usd=None, "
            "cost_status=None, cost_source=None, pricing_version=None, billing_provider=None, "
            "billing_base_url=None, billing_mode=None, api_call_count=0, absolute=False)"
        ),
        "None",
        State.BUILT,
        "usage",
    ),
    Method(
        "record_auxiliary_usage",
        (
            "(session_id, task, *, model=None, billing_provider=None, billing_base_url=None, "
            "input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0, "
            "reasoning_tokens=0, estimated_cost_usd=None, api_call_count=None)"
        ),
        "None",
        State.PLANNED,
        "usage",
    ),
    Method("queue_token_counts", "(session_id, **kwargs)", "None", State.BUILT, "usage"),
    Method("flush_token_counts", "(timeout=5.0)", "bool", State.BUILT, "usage"),
)
