"""What core asks about decoders, answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from optim.decoders import Decoder
from optim.goal import GoalClock, GoalRequest
from optim.model import Model


class Generator:
    """Drives decoders: see the protocol in core."""

    def answers(self, model: Model, asked: GoalRequest, facts: Mapping[str, Any]) -> GoalRequest | str:
        """Answers that a known context has room for; why there are none of a model that looks like a decoder."""
        from optim_plugins.goals.decoders.known import generates_alone, why_not_alone

        if not generates_alone(model):
            return why_not_alone(model)
        context = facts.get("context")
        if not isinstance(context, int) or asked.prompt + asked.new <= context:
            return asked
        return replace(asked, prompt=max(1, context * 3 // 4), new=max(1, context // 4))

    def reach(self, session: Any, asked: GoalRequest) -> None:
        """Run the last token of an answer.

        Raises:
            OptimError[not-a-decoder]: the past that it returns is none for a next step.
        """
        from optim_plugins.goals.decoders.decoder import session_interface
        from optim_plugins.goals.decoders.timing import depths_of, run_at

        run_at(session, session_interface(session), depths_of(asked)[-1])

    def opened(self, sessions: Mapping[str, Any], facts: Mapping[str, Any]) -> Decoder | None:
        """What drives the sessions of a folder."""
        from optim_plugins.goals.decoders.decoder import opened

        return opened(sessions, facts)

    def load_script(self, script: str, model: Model, state: Mapping[str, str] | None) -> str:
        """On onnxruntime a past in buffers; on a runtime of its own one that each step returns anew."""
        from optim_plugins.goals.decoders.load_script import with_buffers, with_growing_past

        return with_buffers(script, model.path) if state is None else with_growing_past(script, model, state)

    def program_clock(self, folder: Path, asked: GoalRequest) -> GoalClock:
        """That of onnxruntime-genai.

        Raises:
            OptimError[runtime-missing]: it is not installed.
        """
        from optim_plugins.goals.decoders.genai import GenaiClock, require_installed

        require_installed(folder)
        return GenaiClock(str(folder.resolve()), asked.prompt, asked.new)
