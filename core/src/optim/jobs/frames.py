"""A traceback as its reader wants it: where code that is neither optim's nor Python's own was, first."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

import optim

_CARRIERS = ("click", "pluggy", "stevedore")
"""Libraries that call plugins for us: their frames say nothing."""


def foreign_first(error: BaseException) -> str:
    """The whole traceback; before it the frames of others than optim, of the exception nearest to the cause."""
    whole = "".join(traceback.format_exception(error))
    for one in reversed(_chain(error)):
        frames = [frame for frame in traceback.extract_tb(one.__traceback__) if _is_foreign(frame.filename)]
        if frames:
            last = "".join(traceback.format_exception_only(one))
            return (
                f"In the plugin (the whole traceback follows):\n{''.join(traceback.format_list(frames))}{last}\n{whole}"
            )
    return whole


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and now not in found:
        found.append(now)
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)
    return found


def _is_foreign(file: str) -> bool:
    if file.startswith("<"):
        return False
    path = Path(file).resolve()
    packages = path.parts
    if "site-packages" in packages:
        name = packages[packages.index("site-packages") + 1]
        return name not in _CARRIERS and not path.is_relative_to(_OPTIM)
    return not path.is_relative_to(_OPTIM) and not path.is_relative_to(_PYTHON)


_OPTIM = Path(optim.__file__).resolve().parent
_PYTHON = Path(sysconfig.get_paths()["stdlib"]).resolve()
