"""The target ``stored``: ``--target stored:file=ref.npz``; ``optim verify ref.npz MODEL`` is short for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from optim import Target
from optim.errors import unknown_name
from optim.providers import CPU

FILE = "file"
"""The setting and the provider option that name the file; percent signs stand for signs that no setting can have."""

TARGET = Target(
    "stored",
    "stored",
    provider=CPU,  # what is stored counts as right: onnxruntime is not asked once more whether it is
    device="a file",
    local=False,
    timed=False,
    exact=False,
    remark="a file of stored outputs runs no model",
    probe=lambda: "it needs a file: optim verify ref.npz MODEL",
    configure=lambda settings: _configured(settings),
)


def _configured(settings: Mapping[str, str]) -> Target:
    """The target of one file.

    Raises:
        OptimError[unknown-target-setting]: another key than ``file``.
        OptimError[bad-outputs-file]: the file is not there, or ``optim outputs`` did not write it.
    """
    for key in settings:
        if key != FILE:
            raise unknown_name("target setting", key, (FILE,), fix="--target stored:file=ref.npz")
    from optim_plugins.diagnose.outputs.file import StoredOutputs

    stored = StoredOutputs.open(Path(unquote(settings[FILE])).absolute())
    options = {FILE: str(stored.path), "digest": stored.digest}
    return replace(TARGET, provider_options=options, remark=f"the reference is {stored.about.text}", probe=None)
