"""What a batch runs: recipes with a table ``[matrix]``, each product of its lists a run of its own."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from optim.engine.fleet import (
    AUTO_TARGET,
    BASELINE_TARGET,
    Recipe,
    is_function,
    read_toml,
    recipe_from,
    target_names,
    untrusted,
)
from optim.errors import ExitStatus, OptimError

_PATTERN = frozenset("*?[")
_LOSSLESS: Literal["lossless"] = "lossless"


def _budget(value: Any) -> Any:
    """A budget of a list, refused in one sentence where it is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value != _LOSSLESS and not (is_number and 0 < value < math.inf):
        raise ValueError(f'a budget is a positive number or "{_LOSSLESS}", not {value!r}')
    return value


class MatrixTable(BaseModel):
    """What is combined: every source with every target and every budget."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: tuple[str, ...] = Field(min_length=1, description="models, relative to the file; patterns such as *.onnx")
    target: tuple[str, ...] = Field(default=(), description="as in `optim targets`; left out: that of the recipe")
    max_drift: tuple[Annotated[float | Literal["lossless"], BeforeValidator(_budget)], ...] = Field(
        default=(), description="budgets: numbers, and 'lossless'; left out: that of the recipe"
    )


class BatchRecipe(Recipe):
    """A recipe for many runs."""

    matrix: MatrixTable = Field(description="what is combined")

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        if self.matrix.target and self.target:
            raise ValueError("target and matrix.target exclude each other")
        if self.matrix.max_drift and (self.budget.max_drift is not None or self.budget.lossless):
            raise ValueError("matrix.max_drift excludes budget.max_drift and budget.lossless")
        for key in ("max_loss", "max_mismatch"):
            if _LOSSLESS in self.matrix.max_drift and getattr(self.budget, key) is not None:
                raise ValueError(f'"{_LOSSLESS}" in matrix.max_drift and budget.{key} exclude each other')
        return self


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of a batch, or the reason why it cannot be begun.

    Attributes:
        name: of its folder; no two of a batch are the same.
        source: the model, as ``optim run`` takes it.
        origin: the file that asks for it.
        recipe: everything else that is asked; None where the file cannot be read.
        error: why it cannot be begun.
    """

    name: str
    source: str
    origin: Path
    recipe: Recipe | None = None
    error: OptimError | None = None

    @property
    def target(self) -> str:
        """Where the model is to run, as ``--target`` takes it."""
        return (self.recipe.target if self.recipe else None) or BASELINE_TARGET

    @property
    def needs(self) -> frozenset[str]:
        """The targets that must be there, by name; ``auto`` takes those that are."""
        names = {name.partition(":")[0] for name in target_names(self.target)} if self.recipe else set()
        return frozenset(names - {AUTO_TARGET})


def read_batch(files: Sequence[Path], *, trust_code: bool = False) -> list[Entry]:
    """The runs that recipes ask for, in their order; what is wrong with one file costs none of the others.

    Args:
        files: recipes with a table ``[matrix]``.
        trust_code: whether they may name factories, which are imported and run.
    """
    found = [entry for file in files for entry in _read(file, trust_code=trust_code)]
    return _with_names_of_their_own(found)


def _read(file: Path, *, trust_code: bool) -> list[Entry]:
    try:
        asked = recipe_from(read_toml(file), file, BatchRecipe)
    except OptimError as error:
        return [Entry(file.stem, "", file, error=error)]
    entries = []
    for source in asked.matrix.source:
        named = _sources(source, file)
        if not named:
            entries.append(Entry(f"{file.stem}-{_stem(source)}", source, file, error=_nothing_there(source, file)))
        for one in named:
            if is_function(one) and not Path(one).exists() and not trust_code:
                entries.append(Entry(_stem(one), one, file, error=untrusted(one, file)))
            else:
                entries += _combined(one, asked, file)
    return entries


def _sources(source: str, file: Path) -> list[str]:
    """The files that a pattern names, or what is beside the recipe; anything else is as it was written."""
    folder = file.absolute().parent
    if _PATTERN & set(source):
        pattern = Path(source)
        within = Path(pattern.anchor) if pattern.is_absolute() else folder
        return [str(path) for path in sorted(within.glob(str(pattern.relative_to(pattern.anchor))))]
    beside = folder / source
    return [str(beside) if beside.exists() else source]


def _combined(source: str, asked: BatchRecipe, file: Path) -> Iterator[Entry]:
    matrix = asked.matrix
    plain = Recipe.model_validate(asked.model_dump(exclude={"matrix"}, exclude_unset=True))
    for target, drift in itertools.product(matrix.target or (None,), matrix.max_drift or (None,)):
        recipe = plain if target is None else plain.model_copy(update={"target": target})
        if drift is not None:
            said = {"lossless": True} if drift == _LOSSLESS else {"max_drift": drift}
            recipe = recipe.model_copy(update={"budget": recipe.budget.model_copy(update=said)})
        parts = [_stem(source)]
        parts += [_safe(target)] if target is not None and len(matrix.target) > 1 else []
        parts += [drift if isinstance(drift, str) else f"{drift:g}"] if len(matrix.max_drift) > 1 else []
        yield Entry("-".join(parts), source, file, recipe)


def _stem(source: str) -> str:
    """A name for a folder: of a file, of a model's folder, or of a factory."""
    return _safe(Path(source).name.rpartition(":")[2].removesuffix(".onnx"))


def _safe(text: str) -> str:
    """A text as a part of a folder's name, on every system."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text).strip(".") or "model"


def _with_names_of_their_own(entries: Sequence[Entry]) -> list[Entry]:
    """Where two have one name, that of the recipe goes before it; where they still have, a number after it."""
    times = Counter(entry.name for entry in entries)
    longer = [
        replace(entry, name=f"{_safe(entry.origin.stem)}-{entry.name}") if times[entry.name] > 1 else entry
        for entry in entries
    ]
    taken: set[str] = set()
    numbered = []
    for entry in longer:
        names = itertools.chain([entry.name], (f"{entry.name}-{number}" for number in itertools.count(2)))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        numbered.append(replace(entry, name=name))
    return numbered


def _nothing_there(source: str, file: Path) -> OptimError:
    return OptimError(
        "model-missing",
        f"{file}: nothing is called {source}",
        f"patterns are relative to {file.absolute().parent}",
        "correct matrix.source in it",
        status=ExitStatus.BAD_INPUT,
    )
