"""The target ``stored``: ``--target stored:file=ref.npz``; ``optim verify ref.npz MODEL`` is short for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from optim import OptimError, Target
from optim.errors import unknown_name
from optim.providers import CPU

FILE = "file"
"""The setting and the provider option that name the file; percent signs stand for signs that no setting can have."""

_OF = "of"
"""The setting that names the model whose reference the file is to be: a run folder says which original it came from."""

TARGET = Target(
    "stored",
    "stored",
    provider=CPU,
    device="a file: stored:file=ref.npz",
    local=False,
    timed=False,
    exact=False,
    remark="it needs a file of stored outputs: optim verify ref.npz MODEL",
    configure=lambda settings: _configured(settings),
)


def _configured(settings: Mapping[str, str]) -> Target:
    """The target of one file.

    Raises:
        OptimError[unknown-target-setting]: another key than ``file``.
        OptimError[bad-outputs-file]: the file is not there, or ``optim outputs`` did not write it.
        OptimError[other-outputs]: the model was made from another one.
    """
    for key in settings:
        if key not in (FILE, _OF):
            raise unknown_name("target setting", key, (FILE, _OF), fix="--target stored:file=ref.npz")
    from optim_plugins.diagnose.outputs.file import StoredOutputs

    if FILE not in settings:
        return TARGET
    stored = StoredOutputs.open(Path(unquote(settings[FILE])).absolute())
    folder = Path(unquote(settings.get(_OF, "")))
    original = _original_of(folder)
    if original and original != stored.about.sha256:
        raise OptimError.usage(
            "other-outputs",
            f"{stored.path.name} has the outputs of another model",
            f"{folder} was made from a model with sha256 {original[:12]}; the file has {stored.about.text}",
            f"store the outputs of the original of {folder}, or compare its file alone: "
            f"optim verify {stored.path.name} {folder / 'model.onnx'}",
        )
    options = {FILE: str(stored.path), "digest": stored.digest}
    return replace(TARGET, provider_options=options, remark=f"the reference is {stored.about.text}")


def _original_of(folder: Path) -> str:
    """Digest of the model that a run folder was made from; empty if it is no such folder."""
    try:
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))["original"]["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""
