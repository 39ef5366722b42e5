"""Libraries of operators that ONNX Runtime does not have itself, found by the domains that a graph imports.

A library is a package of its own, registered with every session that needs it. Nothing is taken from a model file but
the names of its domains: which package stands for a domain is written here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from optim.errors import ExitStatus, OptimError

OPERATOR_LIBRARIES = {"com.microsoft.extensions": "onnxruntime_extensions", "ai.onnx.contrib": "onnxruntime_extensions"}
"""Import name of the package that has the operators of a domain; each has ``get_library_path()``."""

_FILES = {"onnxruntime_extensions": "_extensions_pydll"}


def operator_libraries(domains: Iterable[str]) -> tuple[str, ...]:
    """Returns the import names of the packages that these domains need."""
    return tuple(sorted({OPERATOR_LIBRARIES[domain] for domain in domains if domain in OPERATOR_LIBRARIES}))


def installed_domains() -> dict[str, int]:
    """Domains whose package is installed, each with its version."""
    return {domain: 1 for domain, package in OPERATOR_LIBRARIES.items() if _folder(package) is not None}


def operator_library_path(package: str) -> str:
    """Finds the shared library of a package without importing it, because the import may load torch.

    Raises:
        OptimError[operators-missing]: the package is not installed.
    """
    folder = _folder(package) if package in _FILES else None
    if folder is not None:
        for suffix in EXTENSION_SUFFIXES:
            if (found := folder / f"{_FILES[package]}{suffix}").is_file():
                return str(found)
    name = package.replace("_", "-")
    raise OptimError(
        "operators-missing",
        f"the model needs operators of {name}",
        f"there is no library of {package} for this Python",
        f"pip install {name}",
        status=ExitStatus.TARGET_UNAVAILABLE,
    )


def install_hint(domain: str) -> str:
    """The command that brings the operators of a domain; empty where nobody knows it."""
    package = OPERATOR_LIBRARIES.get(domain, "")
    return f"pip install {package.replace('_', '-')}" if package else ""


def _folder(package: str) -> Path | None:
    found = importlib.util.find_spec(package)
    locations = list(found.submodule_search_locations or ()) if found else []
    return Path(locations[0]) if locations else None
