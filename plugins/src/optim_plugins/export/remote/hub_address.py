"""Addresses of the Hugging Face hub, and what is said of an address while the network is away."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from optim.errors import OptimError

_HUB = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([^/]+))?(?:/(.+?))?/?")
_SET = ("1", "ON", "YES", "TRUE")

_OFFLINE = "HF_HUB_OFFLINE"
"""Environment variable: ``1`` forbids downloads from addresses. optim then only uses files that it downloaded before.
For the address of the hub and a token, set ``HF_ENDPOINT`` and ``HF_TOKEN``."""


@dataclass(frozen=True, slots=True)
class HubAddress:
    """``hf://ORG/NAME[@REVISION][/FILE]``.

    Attributes:
        repo: organization and name.
        revision: branch, tag or commit; None: the main branch.
        file: in the repository; empty: all that a source needs.
    """

    repo: str
    revision: str | None
    file: str


def hub_address(spec: str) -> HubAddress:
    """The parts of an address of the hub.

    Raises:
        OptimError[bad-address]: it is none.
    """
    found = _HUB.fullmatch(spec)
    if found is None or ".." in spec:
        raise bad_hub_address(spec, "it is hf://ORG/NAME, with @REVISION and /FILE if you need them")
    return HubAddress(found[1], found[2], found[3] or "")


def bad_hub_address(spec: str, why: str) -> OptimError:
    """The error for what is no address of the hub."""
    return OptimError.usage(
        "bad-address",
        f"{spec} is not an address of the Hugging Face hub",
        why,
        "hf://sentence-transformers/all-MiniLM-L6-v2/onnx/model.onnx",
    )


def is_offline() -> bool:
    """Whether the user forbids the network, as huggingface_hub reads it."""
    return any(os.environ.get(name, "").upper() in _SET for name in (_OFFLINE, "TRANSFORMERS_OFFLINE"))


def offline(spec: str, lacks: str) -> OptimError:
    """The error for what is not here while the network is not."""
    why = "HF_HUB_OFFLINE forbids the network" if is_offline() else "the network cannot be reached"
    return OptimError(
        "address-offline",
        f"{spec} is not on this machine",
        f"{lacks}, and {why}",
        "run it once with a network, or name a file that is here",
    )
