"""What a plugin says about its own environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Isolation:
    """A plugin's environment; the plugin's module has one as ``OPTIM_ISOLATED``.

    Attributes:
        plugin: name of the plugin.
        requirements: everything in the environment, each pinned as pip takes it: nothing else is installed.
        jobs: a Python file that runs in the environment, without optim: each public function is a job,
            ``job(request, host)`` with JSON values in and out, models and arrays as paths of files.
        python: versions that the pins have wheels for, as ``requires-python`` says it.
    """

    plugin: str
    requirements: tuple[str, ...]
    jobs: Path
    python: str = ">=3.11"


def read_requirements(path: Path) -> tuple[str, ...]:
    """The lines of a requirements file, without comments."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)
