"""Every damaged file that the suite can make, by name."""

from __future__ import annotations

from typing import Final

from . import damaged_indexes, damaged_keys, damaged_rows, damaged_shapes
from .facts import Damage, Facts

__all__ = ["DAMAGES", "Damage", "Facts"]

DAMAGES: Final[dict[str, Damage]] = {
    **damaged_rows.DAMAGES,
    **damaged_keys.DAMAGES,
    **damaged_indexes.DAMAGES,
    **damaged_shapes.DAMAGES,
}
"""Makers of damaged files; the name says the damage and, where it matters, the version."""
