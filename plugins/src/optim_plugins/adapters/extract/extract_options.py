"""Options of ``adapters.extract`` and ``adapters.extract-packed``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from optim import PassOptions


class ExtractOptions(PassOptions):
    """How weights of adapters are supplied from now on."""

    supply: Literal["inputs", "external"] = Field(
        default="inputs",
        description=(
            "inputs: each run passes an adapter, so one session serves many; external: a session gets its adapter "
            "as external initializers, so each adapter needs a session"
        ),
    )
    required: bool = Field(
        default=False, description="every run must pass an adapter, because the inputs have no default"
    )
    rank: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description=(
            "rank of every adapter; zeros fill smaller adapters. By default each run may use another rank; "
            "external and packed weights have the rank of the model's adapter"
        ),
    )
    also: tuple[str, ...] = Field(
        default=(),
        description=(
            "further adapters (folders of peft, or files); each must meet the budget, and is kept in the run folder"
        ),
    )
    files: str = Field(
        "", description="sha256 of the files named here; optim fills it in, and checks it when a lock is repeated"
    )

    @model_validator(mode="after")
    def _whole(self) -> ExtractOptions:
        if self.required and self.supply == "external":
            raise ValueError("required is for inputs: what is external is always required")
        names = [Path(name).stem for name in self.also]
        if len(set(names)) < len(names):
            raise ValueError("two of also have one name, and would be one file in the run folder")
        found = _digest_of(self.also)
        if self.files and found != self.files:
            raise ValueError("the adapters named here are not those that the lock was made with")
        object.__setattr__(self, "files", found)
        return self


class PackedOptions(ExtractOptions):
    """How weights of adapters are packed."""

    bits: Literal[4, 8] = Field(default=4, description="bits of a weight")
    block_size: Literal[16, 32, 64, 128, 256] = Field(default=32, description="number of weights that share a scale")
    mode: Literal["symmetric", "asymmetric"] = Field(
        default="symmetric", description="asymmetric weights have zero points"
    )


def _digest_of(names: tuple[str, ...]) -> str:
    """One digest for what is read beside the options, so that a changed file is a changed request."""
    digest = hashlib.sha256()
    for name in names:
        path = Path(name)
        if not path.exists():
            raise ValueError(f"there is no {name}")
        for file in [path] if path.is_file() else sorted(path.glob("adapter_*")):
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest() if names else ""
