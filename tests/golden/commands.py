"""What is run for the golden files: five models, and every verb that prints JSON on their results."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from timed_models import write_network

from optim._engine.cli.main import main
from optim._engine.plugins.registry import load_registry
from optim_testing import models

PLUGINS = ("adapters", "diagnose", "goals", "layouts", "metrics", "ort", "report", "timed", "lossy")
"""What is installed, as far as these commands know: the same on every machine, with torch and without."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model, and what its run is asked for.

    Attributes:
        passes: names of passes that are tried begin with one of these.
        words: further options of ``optim run``.
    """

    passes: tuple[str, ...]
    words: tuple[str, ...] = ()


MODELS = {
    "wasteful": Model(("timed.",)),
    "drifting": Model(("lossy.",)),
    "mlp": Model(("ort.", "adapters."), ("--lossless",)),
    "convnet": Model(("ort.", "adapters."), ("--goal", "size", "--lossless")),
    "refused": Model(("timed.",), ("--with", "timed.round-heavily")),
}
"""Improved by several steps; repaired; standard passes and settings of the session; by size; nothing is delivered."""

TRACED = ("wasteful", "drifting", "mlp")
"""Models whose runs leave a trace, ``NAME.trace``: with it nothing comes from the cache."""

VERBS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "identity.onnx", "--search-seconds", "100", "--lossless", "--stage", "fuse"),
    "run-dry": ("run", "wasteful.onnx", "--dry-run"),
    "run-pick": ("run", "wasteful-optim", "--pick", "2", "-o", "picked"),
    "verify": ("verify", "wasteful.onnx", "wasteful-optim"),
    "verify-beyond": ("verify", "wasteful.onnx", "drifting.onnx"),
    "bench": ("bench", "wasteful.onnx", "wasteful-optim"),
    "blame": ("blame", "wasteful.onnx", "drifting.onnx"),
    "profile": ("profile", "identity.onnx", "--seconds", "0.1"),
    "sensitivity": ("sensitivity", "mlp.onnx", "--as", "float16", "--seconds", "5"),
    "reduce": ("reduce", "identity.onnx", "--while", "false"),
    "deliver": ("deliver", "wasteful-optim", "--layout", "optimum", "--files", "source", "-o", "laid"),
    "inspect": ("inspect", "mlp.onnx"),
    "inspect-machine": ("inspect", "--machine"),
    "metrics": ("metrics",),
    "targets": ("targets",),
    "passes": ("passes", "list"),
    "passes-one": ("passes", "show", "timed.round"),
    "plugins": ("plugins", "list"),
    "plugins-one": ("plugins", "show", "timed"),
    "cache": ("cache", "show"),
    "cache-prune": ("cache", "prune", "--max-size", "0"),
    "help-error": ("help", "errors/unknown-target"),
    "no-model": ("run", "missing.onnx"),
    "no-target": ("run", "mlp.onnx", "--target", "toaster"),
    "no-json": ("run", "mlp.onnx", "--max-drift", "-1"),
}
"""Each is asked with ``--json``; ``export`` needs torch, and ``batch`` starts programs: neither is here."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(*words: str) -> Answered:
    """Run a command in this process; its standard output is a terminal."""
    with redirect_stdout(_Terminal()) as out, redirect_stderr(io.StringIO()) as err:
        status = int(main(words))
    return Answered(status, out.getvalue(), err.getvalue())


def write_models(folder: Path) -> None:
    """The models, in one folder."""
    write_network(folder / "wasteful.onnx", {"a": 6, "b": 6, "c": 6})
    write_network(folder / "refused.onnx", {"c": 6})
    write_network(folder / "drifting.onnx", {"a": 6}, useful=6)
    (folder / "source").mkdir()
    (folder / "source" / "config.json").write_text("{}")
    for write in (models.mlp, models.convnet, models.identity):
        write(folder)


def run(name: str) -> Answered:
    """Have a model's run, into ``NAME-optim`` of this folder."""
    model = MODELS[name]
    registry = load_registry()
    offered = sorted(one.name for one in registry.offers(registry.target("cpu")))
    without = [f"--without={one}" for one in offered if not one.startswith(model.passes)]
    trace = ("--trace", f"{name}.trace") if name in TRACED else ()
    return answer("run", f"{name}.onnx", "--search-seconds", "100", *model.words, *trace, *without)


def ask(verb: str) -> Answered:
    """Have a command of :data:`VERBS` answer in JSON."""
    return answer(*VERBS[verb], "--json")
