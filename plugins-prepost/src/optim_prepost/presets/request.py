"""What a preset looks at, and how it says that a model does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from optim import ExitStatus, OptimError, TensorInfo
from optim_prepost import PACKAGE
from optim_prepost.plans.append_options import AppendOptions
from optim_prepost.plans.settings import Settings

Kind = Literal["bytes", "pixels", "text", "ids", "samples"]


@dataclass(frozen=True, slots=True)
class Request:
    """A preset's options and the model that it is for.

    Attributes:
        options: of the user.
        settings: of the model's folder.
        inputs: of the model.
        outputs: of the model.
        web: whether the target is a browser.
    """

    options: AppendOptions
    settings: Settings
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    web: bool

    def kind(self, native: Kind, web: Kind) -> Kind:
        """What goes in: as the user says, else as the target can.

        Raises:
            OptimError[preset-does-not-fit]: the task takes something else.
        """
        chosen = self.options.input
        if chosen == "auto":
            return web if self.web else native
        if chosen not in (native, web):
            raise self.unfit(f"it takes {native} or {web}, not {chosen}")
        return chosen

    def unfit(self, cause: str) -> OptimError:
        """The error for a model that is not made for the task."""
        return OptimError(
            "preset-does-not-fit",
            f"preset {self.options.preset} does not fit the model",
            cause,
            "choose another preset, or write the steps with pre and post: optim passes show prepost.append",
            PACKAGE,
            ExitStatus.NOT_HELD,
        )

    def port_name(self, wanted: str) -> str:
        """The name of a new input, unlike those of the model's own inputs and outputs."""
        taken = {info.name for info in (*self.inputs, *self.outputs)}
        return wanted if wanted not in taken else f"raw_{wanted}"


def shape_text(info: TensorInfo) -> str:
    """E.g. ``float32 [1, 3, 224, 224]``."""
    sizes = "?" if info.shape is None else ", ".join(str(size) if size is not None else "?" for size in info.shape)
    return f"{info.dtype} [{sizes}]"
