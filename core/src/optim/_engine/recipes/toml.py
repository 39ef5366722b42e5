"""TOML files as pydantic models, with errors that name the line, the key and the near keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from optim.errors import OptimError, unknown_name

M = TypeVar("M", bound=BaseModel)

_MOST_CHARACTERS = 1 << 24
"""A lock that names 10,000 nodes has half a million; a device has no end."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        OptimError[recipe-not-readable]: the file is missing, a folder, or not text.
        OptimError[bad-toml]: it is no TOML; names the line and shows it.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(_MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not UTF-8 text"
        fix = "name a recipe in TOML, see optim help recipe, or the recipe.lock.toml of a run folder"
        raise OptimError.usage("recipe-not-readable", f"cannot read {path}", cause, fix) from error
    if len(text) > _MOST_CHARACTERS:
        cause, fix = f"it has more than {_MOST_CHARACTERS} characters", "name a recipe in TOML, see optim help recipe"
        raise OptimError.usage("recipe-not-readable", f"cannot read {path}", cause, fix)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(path, text, str(error)) from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, or a thousand brackets: no line is told
        raise _bad_toml(path, "", str(error)) from error


def validate(cls: type[M], data: Mapping[str, Any], path: Path) -> M:
    """``data`` as an instance of ``cls``.

    Raises:
        OptimError[unknown-recipe-key]: a key that ``cls`` does not have, with the near ones.
        OptimError[bad-recipe]: a value that does not fit.
    """
    try:
        return cls.model_validate(dict(data))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        for problem in problems:
            if problem["type"] == "extra_forbidden":
                raise _unknown_key(cls, problem["loc"], path) from error
        cause = "\n".join(f"{_dotted(problem['loc'])}{problem['msg']}" for problem in problems)
        raise OptimError.usage(
            "bad-recipe", f"{path} does not fit", cause, "optim help recipe explains each key"
        ) from error


def _bad_toml(path: Path, text: str, message: str) -> OptimError:
    found = re.search(r"\(at line (\d+), column \d+\)", message)
    lines = text.splitlines()
    number = int(found.group(1)) if found else len(lines)
    shown = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return OptimError.usage(
        "bad-toml",
        f"{path}, line {number}, is not TOML" if lines else f"{path} is not TOML",
        f"{message}\n{shown}".rstrip(),
        'text needs quotes, lists brackets: name = "ort.quantize-dynamic"',
    )


def _unknown_key(cls: type[BaseModel], location: Sequence[int | str], path: Path) -> OptimError:
    owner: type[BaseModel] = cls
    for part in location[:-1]:
        if isinstance(part, str):
            owner = _model_in(owner.model_fields[part].annotation) or owner
    error = unknown_name("recipe key", str(location[-1]), owner.model_fields, fix="optim help recipe")
    table = _dotted(location[:-1]).removesuffix(": ")
    error.what = f"{path}: {error.what}" + (f" in {table}" if table else "")
    return error


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The pydantic class inside ``Budget``, ``Budget | None`` or ``tuple[NamedPass, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _dotted(location: Sequence[int | str]) -> str:
    """``passes[0].name: `` for a place in the file; empty for the file as a whole."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    return f"{text}: " if text else ""
