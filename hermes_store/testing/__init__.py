"""Help for the tests of applications: the check of an upgrade, and a pytest plugin with stores to try things on.

Names are looked up when they are used: pytest loads the plugin in every run, also in those that need no store.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_store.testing.upgrade import UpgradeCheck, check_upgrade

__all__ = ["UpgradeCheck", "check_upgrade"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hermes_store.testing import upgrade

    return getattr(upgrade, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
