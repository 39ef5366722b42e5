"""Options of ``ort.clean``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class CleanOptions(PassOptions):
    """Nothing here changes what is computed."""

    fold_transposes: bool = Field(
        False,
        description="write weights that the graph transposes anew, transposed; one that is also read as it is (an "
        "embedding tied to the head) is then stored twice",
    )
