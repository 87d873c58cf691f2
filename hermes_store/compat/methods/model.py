"""Model, system prompt, model configuration and billing route of a session."""

from hermes_store.compat.methods.table import Kind, Method, State

METHODS: tuple[Method, ...] = (
    Method("patch_session_model_config", "(session_id, patch)", "None", State.PLANNED, "model"),
    Method(
        "get_session_model_config_value",
        "(session_id, key, default=None)",
        "stored value | default",
        State.PLANNED,
        "model",
    ),
    Method("set_session_yolo", "(session_id, enabled)", "None", State.PLANNED, "model"),
    Method("session_yolo_enabled", "(row)", "bool", State.PLANNED, "model", Kind.STATIC),
    Method(
        "update_session_runtime_lock",
        ("(session_id, *, model=None, provider=None, model_options=None, route_source=None, confirmed=False)"),
        "None",
        State.PLANNED,
        "model",
    ),
    Method(
        "update_session_meta",
        "(session_id, model_config_json, model=None)",
        "None",
        State.PLANNED,
        "model",
    ),
    Method("update_session_model", "(session_id, model)", "None", State.PLANNED, "model"),
    Method("update_system_prompt", "(session_id, system_prompt)", "None", State.PLANNED, "model"),
    Method(
        "update_session_billing_route",
        "(session_id, *, provider, base_url, billing_mode=None)",
        "None",
        State.PLANNED,
        "model",
    ),
)
