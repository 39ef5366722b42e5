"""Questions of core to the plugin that drives decoders: which graphs are decoders, how they are opened and timed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from optim._engine.plugins.plugin import EnginePart
from optim._engine.plugins.registry import Registry
from optim.decoders import Decoder
from optim.errors import OptimError
from optim.goal import GoalClock, GoalRequest
from optim.model import Model

GENERATE = "generate"
"""The goal of decoders."""


class TextGenerator(Protocol):
    """Drives decoders. A class of it is made without arguments."""

    def answers(self, model: Model, asked: GoalRequest, facts: Mapping[str, Any]) -> GoalRequest | str:
        """The answers to time of a model that takes tokens and its own past alone, if nobody names a goal.

        Returns:
            Those asked for, or as long ones as a known context has room for. Else why answers of a model are not timed
            that takes tokens and what looks like a past; empty for all other models.
        """

    def reach(self, session: Any, asked: GoalRequest) -> None:
        """Run the last token of an answer: only what exported a graph knows for how many positions it has room.

        Raises:
            Exception: it does not go that far, or there is no memory for the past.
        """

    def opened(self, sessions: Mapping[str, Any], facts: Mapping[str, Any]) -> Decoder | None:
        """What drives the sessions of a folder; None where one alone generates nothing that is known to be text.

        Args:
            sessions: by component.
            facts: of an export that says it generates, with ``state``; empty where the graph alone tells it.
        """

    def load_script(self, script: str, model: Model, state: Mapping[str, str] | None) -> str:
        """The text of ``load.py``, with ``generate`` where the model is a decoder that such a script can drive.

        Args:
            script: whose ``load`` returns a session.
            model: that it opens.
            state: of a runtime of its own, by output the input that takes it in the next step; empty: by their names.
                None: onnxruntime opens the model.
        """

    def program_clock(self, folder: Path, asked: GoalRequest) -> GoalClock:
        """What times answers of another program that drives its model itself.

        Raises:
            OptimError[runtime-missing]: that program is not installed.
        """


GENERATOR: EnginePart[TextGenerator] = EnginePart("generator", "goals")
"""Without it no model is known to be a decoder."""


def loading_script(registry: Registry, script: str, model: Model, state: Mapping[str, str] | None = None) -> str:
    """The text of ``load.py``, with ``generate`` where :meth:`TextGenerator.load_script` puts it."""
    generator = registry.find_part(GENERATOR)
    return generator.load_script(script, model, state) if script and generator is not None else script


_MOST_TOKENS = 1 << 20
"""Of a prompt or an answer; more is a slip of the pen."""


def parse_workload(text: str) -> GoalRequest:
    """The answers of ``prompt=512,new=128``; what is left out is as by default."""
    known: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"\s*(prompt|new)\s*=\s*(\d{1,7})\s*", part)
        if found is None or not 0 < int(found[2]) <= _MOST_TOKENS:
            raise OptimError.usage(
                "bad-workload",
                f"--generate cannot be '{text}'",
                f"'{part}' is not a number of tokens from 1 to {_MOST_TOKENS}, called prompt or new",
                "--generate prompt=512,new=128",
            )
        known[found[1]] = int(found[2])
    return GoalRequest(**known)


def workload_text(asked: GoalRequest) -> str:
    """Answers as :func:`parse_workload` reads them."""
    return f"prompt={asked.prompt},new={asked.new}"


def asked_workload(text: str, goal: str | None) -> dict[str, Any]:
    """What ``--generate`` says, as settings of a run: its goal is ``generate``."""
    if goal not in (None, GENERATE):
        raise OptimError.usage(
            "conflicting-request",
            f"--generate {text} and --goal {goal} exclude each other",
            "--generate says what the answers of goal generate are like",
            fix="leave one of the two out",
        )
    return {"goal": GENERATE, "workload": parse_workload(text)}
