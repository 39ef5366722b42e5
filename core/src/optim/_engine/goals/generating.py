"""Questions of core to the plugin that drives decoders: which graphs are decoders, how they are opened and timed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from optim._engine.plugins.registry import Registry
from optim.decoders import Decoder
from optim.goal import GoalClock, GoalRequest
from optim.model import Model

_PLUGIN = "goals"
"""It has the generator, and the goal of decoders."""
GENERATE = "generate"
"""The goal of decoders."""


class TextGenerator(Protocol):
    """Drives decoders. A class of it is made without arguments."""

    def generates(self, model: Model) -> bool:
        """Whether tokens and its own past are all that a model takes: its answers are timed where nobody says what."""

    def why_not(self, model: Model) -> str:
        """Why answers of a model are not timed that takes tokens and what looks like a past; empty for all else."""

    def within(self, asked: GoalRequest, facts: Mapping[str, Any]) -> GoalRequest:
        """The same answers, or as long ones as the context has room for that a model was made for, where it is known.

        Args:
            asked: what the user says, or what is meant where nobody does.
            facts: of the model's source.
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

        Args:
            folder: of onnxruntime-genai.
            asked: the answers.

        Raises:
            OptimError[runtime-missing]: that program is not installed.
        """


def find_generator(registry: Registry) -> TextGenerator | None:
    """The generator of the installed plugins; None where there is none: then no model is known to be a decoder."""
    for path in registry.offered("generator"):
        from optim.options import import_named  # pydantic takes its time

        made: TextGenerator = import_named(path)()
        return made
    return None


def require_generator(registry: Registry, what: str) -> TextGenerator:
    """The generator of the installed plugins.

    Args:
        registry: of the plugins.
        what: cannot be done without it.

    Raises:
        OptimError[plugin-missing]: there is none; says what to install.
        OptimError[plugin-failed]: its plugin cannot be used.
    """
    made: TextGenerator = registry.part("generator", _PLUGIN, what)
    return made


def loading_script(registry: Registry, script: str, model: Model, state: Mapping[str, str] | None = None) -> str:
    """The text of ``load.py``, with ``generate`` where :meth:`TextGenerator.load_script` puts it."""
    generator = find_generator(registry)
    return generator.load_script(script, model, state) if script and generator is not None else script
