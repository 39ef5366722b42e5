"""Which graphs are decoders that generate step by step, and why others are none."""

from __future__ import annotations

import re

from optim.decoders import KEPT_LOGITS
from optim.errors import OptimError
from optim.model import Model
from optim_plugins.goals.decoders.interface import DecoderInterface, interface_of
from optim_plugins.goals.decoders.steps import MADE

_OF_ENCODER = re.compile("encoder|cross", re.IGNORECASE)


def require_generating(model: Model) -> None:
    """Refuse a model whose answers cannot be timed: a step would lack a past that no output carries on.

    Keys and values of an encoder need none: they are the same in every step.

    Raises:
        OptimError[not-a-decoder]: it has no past, or one that nothing is known to carry on.
    """
    interface = _interface_of(model)
    require_decoder(interface)
    if any(not _OF_ENCODER.search(name) for name in _lost_pasts(interface)):
        raise _no_decoder(interface)


def generates_alone(model: Model) -> bool:
    """Whether tokens and its own past are all that a model takes: no encoder, no image goes with them."""
    interface = _interface_of(model)
    known = {*interface.state.values(), *MADE, "input_ids", KEPT_LOGITS}
    return interface.is_decoder and known.issuperset(interface.inputs)


def why_not_alone(model: Model) -> str:
    """Why answers of a model are not timed that takes tokens and what looks like a past; empty for all else."""
    interface = _interface_of(model)
    if "input_ids" not in interface.inputs or generates_alone(model) or not interface.past_like:
        return ""
    if lost := _lost_pasts(interface):
        return f"'{lost[0]}' looks like its past, but no output has a name that continues it"
    known = {*interface.state.values(), *MADE, "input_ids", KEPT_LOGITS}
    return f"it takes {', '.join(name for name in interface.inputs if name not in known)} too"


def _interface_of(model: Model) -> DecoderInterface:
    return interface_of(model.inputs, [info.name for info in model.outputs])


def require_decoder(interface: DecoderInterface) -> None:
    """Refuse a graph without a past.

    Raises:
        OptimError[not-a-decoder]: it has none.
    """
    if not interface.is_decoder:
        raise _no_decoder(interface)


def _no_decoder(interface: DecoderInterface) -> OptimError:
    pasts = sorted(_lost_pasts(interface), key=lambda name: bool(_OF_ENCODER.search(name)))
    lost = f"no output has a name that continues '{pasts[0]}': " if pasts else ""
    return OptimError.usage(
        "not-a-decoder",
        "the model is not a decoder with a past",
        f"{lost}it takes {', '.join(interface.inputs)} and returns {', '.join(interface.outputs)}",
        "export it with --state, or run its session yourself; the output present X continues a past X",
    )


def _lost_pasts(interface: DecoderInterface) -> list[str]:
    """Inputs that look like a past, and that no output is known to carry on."""
    return [name for name in interface.past_like if name not in interface.state.values()]
