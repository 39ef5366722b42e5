"""A recipe: what the user wants of a run, as a TOML file; and the code of a stranger that it would have run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictFloat, StrictInt, model_validator

from optim._engine.feeds.named import is_function
from optim._engine.plugins.chosen_targets import choose_targets
from optim._engine.plugins.registry import load_registry
from optim._engine.recipes.toml import validate
from optim._engine.search.settings import Named, RunSettings
from optim.errors import OptimError
from optim.options import parse_options
from optim.passes import MODEL_STAGES, Stage


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class BudgetTable(_Table):
    """Limits of the result: accuracy, latency, size and memory."""

    max_drift: float | None = Field(
        default=None, gt=0, strict=True, description="largest drift of any output, for lossy passes"
    )
    max_loss: str | StrictFloat | None = Field(
        default=None, description="largest loss of the metric: '1%' of the original's value, or an amount"
    )
    max_mismatch: str | StrictFloat | None = Field(
        default=None, description="share of an output's texts or whole numbers that may differ: '1%', or 0.01"
    )
    lossless: bool = Field(default=False, strict=True, description="rounding error only")
    max_batch_drift: float | None = Field(
        default=None,
        gt=0,
        strict=True,
        description="largest drift of a sample between running alone and in a batch or with padding",
    )
    max_latency_ms: float | None = Field(
        default=None,
        gt=0,
        strict=True,
        description=(
            "limit of the latency in milliseconds; for goal throughput of the p95 latency; "
            "the whole 95 % interval must be below the limit"
        ),
    )
    max_size: str | StrictInt | None = Field(default=None, description="limit of the size on disk: '50MB', or bytes")
    max_memory: str | StrictInt | None = Field(
        default=None, description="limit of the peak memory of opening and running the model: '200MB', or bytes"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        for name in ("max_drift", "max_loss", "max_mismatch"):
            if self.lossless and getattr(self, name) is not None:
                raise ValueError(f"{name} and lossless exclude each other")
        return self


class NamedPass(_Table):
    """A pass that the run must use."""

    name: str = Field(description="name as in `optim passes list`")
    options: Mapping[str, Any] | None = Field(
        default=None, description="options; by default those that the pass proposes"
    )


def _joined(target: Any) -> Any:
    """Several names as the command line has them; what is no list of names is refused as it is."""
    return ",".join(target) if isinstance(target, list) and all(isinstance(name, str) for name in target) else target


class Recipe(_Table):
    """Settings of a run.

    All keys are optional. An unknown key is an error that names the nearest ones.

        target = "cpu"
        data = "samples.npz"
        search_seconds = 120
        without = ["ort.fuse-transformer"]

        [budget]
        max_loss = "1%"
        max_size = "50MB"

        [[passes]]
        name = "ort.quantize-dynamic"
        options = { per_channel = true }
    """

    target: Annotated[str | None, BeforeValidator(_joined)] = Field(
        default=None,
        description=(
            "target as in `optim targets`, a list of several, or auto; with several, the fastest result is delivered"
        ),
    )
    generate: str | None = Field(
        default=None, description="for goal generate: tokens of the prompt and the answer, e.g. prompt=512,new=128"
    )
    goal: str | None = Field(
        default=None,
        description=(
            "property to improve: latency, size, memory, accuracy (within the limits of budget), startup, throughput "
            "or generate; by default latency, or generate for a decoder"
        ),
    )
    data: str | None = Field(default=None, description="input samples; a path is relative to the recipe")
    metric: str | None = Field(default=None, description="task metric as in `optim metrics`, e.g. top-k:k=3")
    seed: int | None = Field(default=None, ge=0, strict=True, description="random seed")
    search_seconds: Annotated[float, Field(gt=0, strict=True)] | Literal["auto"] | None = Field(
        default=None,
        description="time limit of the whole run in seconds, or auto; the run tries its required passes in any case",
    )
    stages: tuple[Stage, ...] = Field(default=(), description="only these stages")
    without: tuple[str, ...] = Field(default=(), description="passes that should not run")
    budget: BudgetTable = Field(default=BudgetTable(), description="limits of the result, which work with every goal")
    passes: tuple[NamedPass, ...] = Field(default=(), description="required passes; the run fails if one does not help")

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        names = [named.name for named in self.passes]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"passes names {repeated[0]} twice")
        if both := sorted(set(names) & set(self.without)):
            raise ValueError(f"{both[0]} is both in passes and in without")
        return self

    def named(self) -> tuple[Named, ...]:
        """The passes that must hold, as a run takes them."""
        return tuple(Named(asked.name, asked.options, carried=True) for asked in self.passes)


R = TypeVar("R", bound=Recipe)


def recipe_from(data: Mapping[str, Any], path: Path, kind: type[R] = Recipe) -> R:  # type: ignore[assignment]
    """The recipe in tables that were read from ``path``; a path of feeds is made relative to it.

    Raises:
        OptimError[unknown-recipe-key]: a key that recipes do not have, with the near ones.
        OptimError[bad-recipe]: a value that does not fit.
    """
    recipe = validate(kind, data, path)
    if recipe.data is not None and (beside := path.absolute().parent / recipe.data).exists():
        return recipe.model_copy(update={"data": str(beside)})
    return recipe


def require_no_code(settings: RunSettings, path: Path, given: Collection[str]) -> None:
    """Refuse a recipe or a lock that names code.

    Raises:
        OptimError[untrusted-code]: it names a function or a class that would be imported and run.
    """
    named = next(_named(settings, given), "")
    if named:
        raise untrusted(named, path)


def untrusted(named: str, path: Path) -> OptimError:
    """The refusal of a file that names code."""
    return OptimError.usage(
        "untrusted-code",
        f"{path.name} names {named}, which would be run",
        "a recipe or a lock may come from somebody else, and so may the code that it names",
        "read the file and its code; if you trust both, run it again with --trust-code",
    )


def _named(settings: RunSettings, given: Collection[str]) -> Iterator[str]:
    if "data" not in given and settings.data is not None and is_function(settings.data):
        yield settings.data
    if "metric" not in given and settings.metric is not None and settings.metric.names_code:
        yield settings.metric.name
    asked = [one for one in (*(settings.chain or ()), *(() if "named" in given else settings.named)) if one.options]
    if not asked:
        return
    registry = load_registry()
    targets = choose_targets(registry, settings.target, here=False).targets
    for one in asked:
        offering = (target for target in targets if one.name in {offered.name for offered in registry.offers(target)})
        offered = registry.find_pass(one.name, next(offering, targets[0]))
        if offered.stage in MODEL_STAGES:
            pass_class = offered.over_models
            yield from pass_class().runs_code(parse_options(pass_class, dict(one.options or {})))
