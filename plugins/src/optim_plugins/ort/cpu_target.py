"""The target ``cpu``, and what may stand behind its name: ``--target cpu:threads=4``."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from optim import OptimError, Target
from optim.errors import unknown_name

_SETTINGS = ("threads",)


def _missing(threads: int) -> str | None:
    """The reason why ONNX Runtime cannot be used, with so many threads; it is not imported."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "onnxruntime is not installed: pip install 'onnxruntime>=1.24.2,<1.33'"
    from optim.jobs import usable_processors

    processors = usable_processors()
    if threads <= processors:
        return None
    return f"threads={threads} is more than the {processors} processor{'s' * (processors > 1)} that it may use here"


def _configured(settings: Mapping[str, str]) -> Target:
    """The target with settings.

    Raises:
        OptimError[unknown-target-setting]: lists the near ones.
        OptimError[bad-target-setting]: threads are no count.
    """
    for key in settings:
        if key not in _SETTINGS:
            raise unknown_name("target setting", key, _SETTINGS, fix="--target cpu:threads=1")
    text = settings["threads"]
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise OptimError.usage(
            "bad-target-setting",
            f"target cpu has no threads={text}",
            "threads is a count, 1 or more",
            "--target cpu:threads=1, or --target cpu for as many as onnxruntime takes",
        )
    threads = int(text)
    said = f"every session has {threads} thread{'s' * (threads > 1)} at most (threads={threads})"
    return replace(CPU, threads=threads, remark=said, probe=partial(_missing, threads))


CPU = Target(
    name="cpu",
    backend="ort",
    provider="CPUExecutionProvider",
    device="CPU",
    probe=partial(_missing, 0),
    configure=_configured,
)
