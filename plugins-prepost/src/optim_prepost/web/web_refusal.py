"""What cannot run in a browser is refused before anything is built: operators that onnxruntime-web does not have."""

from __future__ import annotations

from collections.abc import Iterable

from optim import ExitStatus, OptimError
from optim_prepost import PACKAGE
from optim_prepost.plans.append_options import AppendOptions
from optim_prepost.plans.catalog import KINDS, Kind
from optim_prepost.plans.olive_lists import step_kinds
from optim_prepost.plans.tool_commands import as_preset

_DECODES = {"speech": "AudioDecoder"}


def refuse_custom(kinds: Iterable[str]) -> None:
    """Refuse steps with custom operators.

    Raises:
        OptimError[not-for-web]: at the first such step, with its operator and what does the same.
    """
    for name in kinds:
        kind = KINDS.get(name)
        if kind is not None and kind.custom:
            raise _refusal(kind)


def refuse_options(options: AppendOptions) -> None:
    """The same, of options whose model is not known yet."""
    chosen = as_preset(options) if options.tool_command else options
    refuse_custom(step_kinds(chosen))
    if chosen.preset is not None and chosen.input == "bytes":
        refuse_custom([_DECODES.get(chosen.preset, "ConvertImageToBGR")])
    if chosen.preset is not None and chosen.input == "text":
        refuse_custom(["BertTokenizer"])


def _refusal(kind: Kind) -> OptimError:
    return OptimError(
        "not-for-web",
        f"step {kind.name} cannot run in onnxruntime-web",
        f"it needs the operator {kind.custom[0]}, which onnxruntime-web does not have",
        kind.instead,
        PACKAGE,
        ExitStatus.NOT_HELD,
    )
