"""Read a recipe or a lock, and say exactly what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from optim.errors import ExitStatus, OptimError, unknown_name
from optim.recipes.lock import VERSION, Lock
from optim.recipes.recipe import Recipe
from optim.search.settings import RunSettings

M = TypeVar("M", bound=BaseModel)


def apply_recipe(settings: RunSettings, path: Path) -> tuple[RunSettings, str | None]:
    """Settings with those of a recipe or a lock laid over them.

    Returns:
        The settings, and for a lock the digest that the model must come out with.
    """
    found = load_recipe(path)
    return found.applied(settings), found.result.model_digest if isinstance(found, Lock) else None


def load_recipe(path: Path) -> Recipe | Lock:
    """Read a recipe or a lock; one that has ``[[chain]]`` or ``[result]`` is a lock.

    A ``data`` that names something beside the file is taken from there, else from the working folder.

    Raises:
        OptimError[no-recipe]: the file cannot be read.
        OptimError[bad-recipe]: it is no TOML, or a value does not fit.
        OptimError[unknown-recipe-key]: a key that does not exist; lists the near ones.
        OptimError[lock-version]: a newer optim wrote the lock.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise OptimError(
            "no-recipe", f"cannot read the recipe {path}", error.strerror or str(error), status=ExitStatus.USAGE
        ) from error
    except ValueError as error:
        raise _bad(path, f"it is not TOML: {error}") from error
    if "chain" in data or "result" in data:
        if data.get("version") != VERSION:
            raise OptimError(
                "lock-version", f"cannot read the lock {path}",
                f"it has version {data.get('version')}, this optim reads {VERSION}", "pip install -U optim-core",
                status=ExitStatus.USAGE,
            )  # fmt: skip
        lock = _parsed(Lock, data, path, text)
        if lock.feeds.data is None:
            return lock
        return lock.model_copy(update={"feeds": lock.feeds.model_copy(update={"data": _beside(path, lock.feeds.data)})})
    recipe = _parsed(Recipe, data, path, text)
    return recipe if recipe.data is None else recipe.model_copy(update={"data": _beside(path, recipe.data)})


def _parsed(cls: type[M], data: dict[str, Any], path: Path, text: str) -> M:
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        problems = error.errors()
        for problem in problems:
            if problem["type"] == "extra_forbidden":
                raise _unknown_key(cls, problem, path, text) from error
        words = [f"{_place(one['loc'], text)}: {one['msg'].removeprefix('Value error, ')}" for one in problems]
        raise _bad(path, "\n".join(words)) from error


def _unknown_key(cls: type[BaseModel], problem: ErrorDetails, path: Path, text: str) -> OptimError:
    *parents, key = problem["loc"]
    fix = f"correct {path}; every key is described in docs/recipes.md"
    error = unknown_name("recipe key", str(key), _keys_at(cls, parents), fix=fix)
    error.cause = f"{_place(problem['loc'], text)}; {error.cause}"
    return error


def _keys_at(cls: type[BaseModel], parents: Sequence[int | str]) -> list[str]:
    """The keys that a table may have."""
    for name in (parent for parent in parents if isinstance(parent, str)):
        cls = next(_models(cls.model_fields[name].annotation))
    return [str(field.validation_alias or name) for name, field in cls.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _place(loc: Sequence[int | str], text: str) -> str:
    """Where it stands, in words: ``line 4, passes 1, options``. The line is that of the key's first appearance."""
    words = [f"{part + 1}" if isinstance(part, int) else part for part in loc] or ["the file"]
    keys = [part for part in loc if isinstance(part, str)]
    pattern = re.compile(rf"^\s*(\[+\s*)?['\"]?{re.escape(keys[-1])}['\"]?\s*[=.\]]") if keys else None
    lines = [number for number, line in enumerate(text.splitlines(), 1) if pattern and pattern.match(line)]
    return " ".join([f"line {lines[0]}:" if len(lines) == 1 else "", *words]).strip()


def _beside(path: Path, data: str) -> str:
    beside = path.parent / data
    return str(beside) if beside.exists() else data


def _bad(path: Path, cause: str) -> OptimError:
    return OptimError(
        "bad-recipe", f"cannot use the recipe {path}", cause, "every key is described in docs/recipes.md",
        status=ExitStatus.USAGE,
    )  # fmt: skip
