"""Options of ``ort.fix-shapes``."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from optim import PassOptions

Size = Annotated[int, Field(gt=0, strict=True)]


class FixShapesOptions(PassOptions):
    """One of the two, not both; with neither, the shapes that all samples of the run have in common."""

    dimensions: dict[str, Size] = Field(
        default_factory=dict, description="sizes by the name of a dimension, e.g. {batch=1, seq=128}; excludes shapes"
    )
    shapes: dict[str, tuple[Size, ...]] = Field(
        default_factory=dict,
        description="shapes by the name of an input, e.g. {input_ids=[1, 128]}; excludes dimensions",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.dimensions and self.shapes:
            raise ValueError("dimensions and shapes exclude each other")
        return self
