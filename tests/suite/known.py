"""What is known not to be right, with the reason: by case and pass."""

from __future__ import annotations

KNOWN: dict[tuple[str, str], str] = {}
