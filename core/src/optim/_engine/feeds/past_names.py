"""Which output of a decoder is fed to which input of its next step, told by their names.

    past_key_values.0.key              present.0.key                        optimum, onnxruntime-genai
    past_0                             present_0                            tools of onnxruntime
    past_key_self_0                    present_key_self_0
    input.past_key_values.layers.0.k   output.past_key_values.layers.0.k    exporters of transformers
    in_cache_k_0                       out_cache_k_0

Words that say past or present are left out; names whose other words are the same belong together. Two inputs or two
outputs of the same words tell nothing, nor does ``output`` alone, which may be scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def carried_by_name(inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, str]:
    """By output, the input that takes it in the next step."""
    of_the_past = {"past", "cache", "caches", "prev", "previous"}
    of_the_present = {*of_the_past, "present", "new", "next", "updated"}
    marks = {*of_the_present, "in", "out", "input", "output"}

    def words(name: str) -> list[str]:
        """A name, its layer and its part; ``past_key_values`` is one word."""
        return re.split(r"[^a-z0-9]+", re.sub(r"(past|present|new)_key_values?(?![a-z])", r"\1", name.lower()))

    def found(names: Iterable[str], needed: set[str]) -> dict[tuple[str, ...], list[str]]:
        """Names by their other words; of those that have no other words, the ones with a needed word."""
        by_words: dict[tuple[str, ...], list[str]] = {}
        for name in names:
            rest = tuple(word for word in words(name) if word not in marks)
            if rest or needed & set(words(name)):
                by_words.setdefault(rest, []).append(name)
        return by_words

    takers = found([name for name in inputs if of_the_past & set(words(name))], of_the_past)
    givers = found(outputs, of_the_present)
    pairs = [(givers.get(rest, []), taken) for rest, taken in takers.items()]
    return {given[0]: taken[0] for given, taken in pairs if len(given) == 1 and len(taken) == 1}
