"""What a decoder is used for, in two numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from optim.errors import OptimError

_MOST_TOKENS = 1 << 20
"""Of a prompt or an answer; more is a slip of the pen."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One answer to one prompt.

    Attributes:
        prompt: its tokens.
        new: tokens of the answer.
    """

    prompt: int = 512
    new: int = 128

    @classmethod
    def parse(cls, text: str) -> Workload:
        """Of ``prompt=512,new=128``; what is left out is as in this one.

        Raises:
            OptimError[bad-workload]: it is nothing of the kind.
        """
        known = {"prompt": cls().prompt, "new": cls().new}
        for part in filter(None, text.split(",")):
            found = re.fullmatch(r"\s*(prompt|new)\s*=\s*(\d{1,7})\s*", part)
            if found is None or not 0 < int(found[2]) <= _MOST_TOKENS:
                raise _bad(text, f"'{part}' is not a number of tokens from 1 to {_MOST_TOKENS}, called prompt or new")
            known[found[1]] = int(found[2])
        return cls(known["prompt"], known["new"])

    def __str__(self) -> str:
        return f"prompt={self.prompt},new={self.new}"


def asked_workload(text: str, goal: str | None) -> dict[str, Any]:
    """What ``--generate`` says, as settings of a run: its goal is ``generate``.

    Raises:
        OptimError[bad-workload]: it cannot be read.
        OptimError[conflicting-request]: another goal was asked for.
    """
    if goal not in (None, "generate"):
        raise OptimError.usage(
            "conflicting-request",
            f"--generate {text} and --goal {goal} exclude each other",
            "--generate says what the answers of goal generate are like",
            fix="leave one of the two out",
        )
    return {"goal": "generate", "workload": Workload.parse(text)}


def _bad(text: str, why: str, fix: str = "--generate prompt=512,new=128") -> OptimError:
    return OptimError.usage("bad-workload", f"--generate cannot be '{text}'", why, fix)
