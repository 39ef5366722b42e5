"""The target ``onnxruntime``: another version of it, ``--target onnxruntime:version=1.28.0``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from optim import OptimError, Target
from optim.errors import unknown_name
from optim.providers import CPU

VERSION = "version"
_EXAMPLE = "optim bench MODEL --runtime onnxruntime==1.28.0"

TARGET = Target(
    "onnxruntime",
    "onnxruntime",
    provider=CPU,
    device="CPU, another version: onnxruntime:version=1.28.0",
    local=False,
    remark=f"it needs a version: {_EXAMPLE}",
    configure=lambda settings: _configured(settings),
)


def target_name(version: str) -> str:
    """What ``--target`` calls a version."""
    return f"{TARGET.name}:{VERSION}={version}"


def _configured(settings: Mapping[str, str]) -> Target:
    """The target of one version.

    Raises:
        OptimError[unknown-target-setting]: another key than ``version``.
        OptimError[bad-target-setting]: no version.
    """
    from optim_plugins.diagnose.runtimes.environment import is_version

    for key in settings:
        if key != VERSION:
            raise unknown_name("target setting", key, (VERSION,), fix=_EXAMPLE)
    version = settings[VERSION]
    if not is_version(version):
        raise OptimError.usage(
            "bad-target-setting", f"'{version}' is no version of onnxruntime", "it must be written as 1.28.0", _EXAMPLE
        )
    return replace(TARGET, provider_options={VERSION: version}, remark="", probe=partial(_missing, version))


def _missing(version: str) -> str | None:
    from optim.isolation import find_environment
    from optim_plugins.diagnose.runtimes.environment import environment_of

    made = find_environment(environment_of(version))
    return None if made else f"it has no environment yet: optim bench MODEL --runtime onnxruntime=={version}"
