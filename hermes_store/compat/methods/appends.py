"""Adding messages to a transcript."""

from hermes_store.compat.methods.table import Method, State

METHODS: tuple[Method, ...] = (
    Method(
        "append_message",
        (
            "(session_id, role, content=None, tool_name=None, tool_calls=None, tool_call_id=None, "
            "token_count=None, finish_reason=None, reasoning=None, reasoning_content=None, "
            "reasoning_details=None, codex_reasoning_items=None, codex_message_items=None, "
            "platform_message_id=None, observed=False, effect_disposition=None, timestamp=None, "
            "api_content=None, display_kind=None, display_metadata=None, compression_lock_holder=None)"
        ),
        "int",
        State.BUILT,
        "appends",
    ),
    Method(
        "append_messages_batch",
        "(session_id, messages, compression_lock_holder=None, chunk_rows=None)",
        "int",
        State.PLANNED,
        "appends",
    ),
)
