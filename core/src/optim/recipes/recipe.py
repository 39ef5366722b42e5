"""The recipe: what a user writes in TOML instead of a long command line (docs/recipes.md)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from optim.passes import Stage
from optim.search.settings import Goal, Named, RunSettings


class RecipePass(BaseModel):
    """A pass that must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="e.g. ort.quantize-dynamic")
    options: dict[str, Any] | None = Field(None, description="left out: what the pass itself proposes is tried")


class Recipe(BaseModel):
    """Everything may be left out; the command line goes before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str | None = Field(None, description="where the model will run, see optim targets")
    goal: Goal | None = Field(None, description="what better means")
    max_drift: PositiveFloat | None = Field(None, allow_inf_nan=False, description="relative L2 for lossy passes")
    lossless: bool | None = Field(None, description="admit only passes held to rounding error")
    data: str | None = Field(None, description="feeds: .npz, a folder of them, or package.module:function")
    seed: int | None = Field(None, description="of everything random")
    search_seconds: float | None = Field(None, ge=0, allow_inf_nan=False, description="bound of the search, in seconds")
    without: tuple[str, ...] | None = Field(None, description="passes left out")
    stages: tuple[Stage, ...] | None = Field(None, description="only these")
    passes: tuple[RecipePass, ...] = Field((), description="passes that must hold")

    @model_validator(mode="after")
    def _one_budget(self) -> Self:
        if self.lossless and self.max_drift is not None:
            raise ValueError("max_drift and lossless exclude each other")
        return self

    def applied(self, settings: RunSettings) -> RunSettings:
        """The settings with what the recipe says laid over them."""
        said = {name: getattr(self, name) for name in self.model_fields_set - {"passes", "without"}}
        if self.without is not None:
            said["without"] = frozenset(self.without)
        if self.passes:
            said["named"] = tuple(Named(one.name, one.options) for one in self.passes)
        return replace(settings, **{name: value for name, value in said.items() if value is not None})
