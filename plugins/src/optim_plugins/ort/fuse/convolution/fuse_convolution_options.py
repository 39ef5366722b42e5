"""Options of ``ort.fuse-convolution``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class FuseConvolutionOptions(PassOptions):
    """Nothing here changes what is computed."""

    neighbours: bool = Field(
        False,
        description=(
            "let a convolution with few output channels compute several neighbouring outputs as channels of one, "
            "because CPU kernels compute 8 or 16 channels at a time"
        ),
    )
