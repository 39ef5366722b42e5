"""What the user names with ``--data``: whether there is such a thing, before anything heavy is imported."""

from __future__ import annotations

import re
from pathlib import Path

from optim.errors import OptimError

GIVEN_FEEDS = "given-in-python.npz"
"""What feeds are called that were arrays of a program: there is no such file once it has ended."""

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_function(spec: str) -> bool:
    """Returns whether feeds are named as ``package.module:function``."""
    return bool(_FUNCTION.fullmatch(spec)) and not spec.endswith(".npz")


def require_feeds(spec: str) -> None:
    """Refuse what names nothing that could be read.

    Raises:
        OptimError[feeds-missing]: neither a file, a folder nor a function.
    """
    path = Path(spec)
    if path.exists() or is_function(spec):
        return
    if path.name == GIVEN_FEEDS:
        raise OptimError(
            "feeds-missing",
            "the input samples of this lock are not stored",
            "a program passed them as arrays",
            "pass them again: optim.run(model, recipe='recipe.lock.toml', data=arrays), or --data with a file",
        )
    here = sorted(file.name for file in path.parent.glob("*.npz")) if path.parent.is_dir() else []
    raise OptimError(
        "feeds-missing",
        f"there is no file or folder {spec}",
        f"{path.parent} holds {', '.join(here[:8])}" if here else f"there is no .npz file in {path.parent}",
        "give an .npz file, a folder of .npz files, or package.module:function",
    )
