"""What of a golden file depends on the machine, on noise or on versions, taken out: one rule a line."""

from __future__ import annotations

import json
import re
from typing import Any

MEASURED = ("above", "entries", "evidence", "location", "machine", "pid", "processors", "trace", "value")
"""Keys of JSON whose values are ``#``: counts by drift and of the cache, places of code, the machine, the process."""

_RULES = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+[\d:]+)?"), "<time>"),
    (re.compile(r"(?<![\w.])-?\d+((\.\d+)+(e[-+]?\d+)?|e[-+]?\d+)(?!\w)"), "#"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{12,64}\b"), "<digest>"),
    (re.compile(r"(?<![\w.#])\d{4,}(?!\w)"), "#"),
    (re.compile(r"(?<![\w.])\d+(?= (ms|s|B|kB|MB|GB)\b)"), "#"),
)
"""Times and digests by their form; numbers with a point, an exponent, four digits or a unit. Small integers stay."""

_TRIES = re.compile(r"(?:^(?:\[ *# s\] trying |info: ).*\n)+", re.MULTILINE)
"""Tries that run at once say so, and what they did, in the order of their processes: lines side by side are sorted."""


def normal(text: str, folder: str) -> str:
    """A text as a golden file has it; ``folder`` is the one of this test."""
    text = text.replace(folder, "<folder>")
    for pattern, sign in _RULES:
        text = pattern.sub(sign, text)
    return _TRIES.sub(lambda found: "".join(sorted(found[0].splitlines(keepends=True))), text)


def normal_json(text: str, folder: str) -> str:
    """The same of JSON, in its order."""
    return normal(json.dumps(_unmeasured(json.loads(text)), indent=1, ensure_ascii=False), folder) + "\n"


def _unmeasured(value: Any, *, measured: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _unmeasured(one, measured=measured or key in MEASURED) for key, one in value.items()}
    if isinstance(value, list):
        return ["#"] if measured else [_unmeasured(one) for one in value]
    return "#" if measured else value
