"""What stands for a runtime that is not here: it looks the outputs of the original up in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from optim import Backend, BackendLimits, Model, OptimError, Session, Target
from optim.arrays import Feeds, Outputs
from optim.providers import CPU
from optim_plugins.diagnose.outputs.target import FILE

if TYPE_CHECKING:
    from optim_plugins.diagnose.outputs.file import StoredOutputs


class StoredSession(Session):
    """Finds what was computed of its feeds."""

    def __init__(self, stored: StoredOutputs) -> None:
        self._stored = stored

    def run(self, feeds: Feeds) -> Outputs:
        """Read the outputs of the stored run on these feeds.

        Raises:
            OptimError: other-samples, bad-outputs-file.
        """
        return self._stored.find(feeds)

    @property
    def executed_on(self) -> Mapping[str, float]:
        """The provider that the file stands for."""
        return {CPU: 1.0}


class StoredBackend(Backend):
    """Outputs of a file; it runs no model."""

    name = "stored"
    reference_only = True

    def open(self, model: Model, target: Target) -> Session:
        """Refuse: a candidate would be compared with itself.

        Raises:
            OptimError[stored-outputs-only]: always.
        """
        raise OptimError.usage(
            "stored-outputs-only",
            "a file of stored outputs cannot run a model",
            f"target {target.name} has the outputs of the reference, and nothing that computes others",
            "optim verify ref.npz MODEL --data samples.npz --target cpu",
        )

    def open_reference(self, model: Model, target: Target) -> Session:
        """What the file has, if it can be of a model with these outputs.

        Raises:
            OptimError[other-outputs]: the file has other outputs.
            OptimError[bad-outputs-file]: the file is gone or was changed.
            OptimError[bad-target-setting]: the target has no file.
        """
        from optim_plugins.diagnose.outputs.file import StoredOutputs

        if FILE not in target.provider_options:
            raise OptimError.usage(
                "bad-target-setting", "target stored needs a file", "no file= was given", "--target stored:file=ref.npz"
            )
        stored = StoredOutputs.open(Path(target.provider_options[FILE]))
        wanted = {info.name: info.dtype for info in model.outputs}
        found = {name: "str" if dtype.startswith("str") else dtype for name, dtype in stored.outputs.items()}
        inputs = {info.name for info in model.inputs}
        if found != wanted or not inputs >= set(stored.inputs):
            theirs = _listed(found) if found != wanted else ", ".join(stored.inputs)
            ours = _listed(wanted) if found != wanted else ", ".join(sorted(inputs))
            kind = "outputs" if found != wanted else "inputs"
            raise OptimError.usage(
                "other-outputs",
                f"{stored.path.name} has the outputs of another model",
                f"its model, {stored.about.model}, has the {kind} {theirs}; this one has {ours}",
                f"optim outputs MODEL --data samples.npz -o {stored.path.name}, with the model that this one came from",
            )
        return StoredSession(stored)

    def limits(self) -> BackendLimits:
        """Those of onnxruntime."""
        from optim.onnx import runtime_limits

        return runtime_limits()


def _listed(outputs: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in sorted(outputs.items()))
