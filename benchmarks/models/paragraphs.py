"""English paragraphs that Python itself ships (``pydoc_data.topics``, the language reference), in two halves.

No paragraph is in both halves, and none is there twice: topics alternate between the halves, and text that several
topics share counts for the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pydoc_data.topics import topics

FEWEST_WORDS = 40


def paragraphs(judged: bool) -> list[str]:
    """One half: of calibration (False) or of judging (True), in the order of the topics."""
    seen: set[str] = set()
    halves: tuple[list[str], list[str]] = ([], [])
    for number, name in enumerate(sorted(topics)):
        for text in _prose(topics[name]):
            if text not in seen:
                halves[number % 2].append(text)
            seen.add(text)
    return halves[judged]


def spread(texts: list[str], count: int) -> list[str]:
    """So many of them, far from each other."""
    if len(texts) < count:
        raise SystemExit(f"{count} paragraphs are needed, this Python ships {len(texts)}")
    return [texts[i * len(texts) // count] for i in range(count)]


def _prose(topic: str) -> Iterator[str]:
    """Its paragraphs of words; code and tables, which are indented, are left out."""
    for block in re.split(r"\n\s*\n", topic):
        lines = block.splitlines()
        text = " ".join(block.split())
        if not any(line.startswith("   ") for line in lines) and len(text.split()) >= FEWEST_WORDS:
            yield text
