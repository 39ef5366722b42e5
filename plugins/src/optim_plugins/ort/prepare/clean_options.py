"""Options of ``ort.clean``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class CleanOptions(PassOptions):
    """Nothing here changes what is computed."""

    fold_transposes: bool = Field(
        False,
        description=(
            "store a weight transposed if the graph transposes it; a weight with other readers (an embedding tied "
            "to the head) is then stored twice"
        ),
    )
