"""Errors of an exporter, with the line of the user's code that they are about."""

from __future__ import annotations

import importlib.util
import re
import traceback
from pathlib import Path

from optim import Component, OptimError

_USER_CODE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s+(\S.*)')
_LIBRARIES = ("torch", "transformers", "onnxscript", "onnx_ir", "optim", "optim_plugins")


def not_traceable(component: Component, error: BaseException, exporter: str) -> OptimError:
    """The error for a module that an exporter cannot take.

    Args:
        component: what was exported.
        error: as the exporter raised it; the first place outside of libraries that it mentions is named.
        exporter: its name.
    """
    place = user_line(error)
    root = _root(error)
    message = next((line.strip() for line in str(root).splitlines() if line.strip()), type(root).__name__)
    cause = (f"{place}\n" if place else "") + f"{type(root).__name__}: {message[:300]}"
    return OptimError(
        "not-traceable",
        f"{exporter} cannot export {component.name}",
        cause,
        "compute with tensors there, without branches on their values (torch.where, torch.cond), or keep that part out "
        "of the module's forward",
    )


def user_line(error: BaseException) -> str:
    """``file:line, in function: code`` of the innermost frame that belongs to no library, or nothing."""
    found: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        found += [
            f"{frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}"
            for frame in traceback.extract_tb(seen.__traceback__)
            if _is_users(frame.filename)
        ]
        found += [
            f"{file}:{line}, in {function}: {code}"
            for file, line, function, code in _USER_CODE.findall(str(seen))
            if _is_users(file)
        ]
        seen = seen.__cause__ or seen.__context__
    return found[-1] if found else ""


def _is_users(filename: str) -> bool:
    path = Path(filename)
    if filename.startswith("<") or not path.exists():
        return False
    return not any(path.is_relative_to(folder) for folder in _library_folders())


def _library_folders() -> list[Path]:
    import sysconfig

    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        folders += [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return folders


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
