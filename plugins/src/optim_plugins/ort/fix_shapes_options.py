"""Options of ``ort.fix-shapes``."""

from __future__ import annotations

from pydantic import Field

from optim import PassOptions


class FixShapesOptions(PassOptions):
    """One of the two, not both; with neither, the shapes that all samples of the run have in common."""

    dimensions: dict[str, int] = Field(
        default_factory=dict, description="sizes by name of a dimension, e.g. {batch=1, seq=128}; excludes shapes"
    )
    shapes: dict[str, tuple[int, ...]] = Field(
        default_factory=dict, description="whole shapes by input, e.g. {input_ids=[1, 128]}; excludes dimensions"
    )
