"""How far contenders are from the original on the judging samples, by optim's gate, and how fast they look.

    python benchmarks/table/judge.py ASKED.json FOUND.json

ASKED has ``model``, ``judged``, ``contenders`` and ``task`` (empty: no answers are compared). FOUND is written
after each contender, so that one that crashes the process costs nothing but itself. The quick time chooses settings
for the race; it is no figure of a table.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import numpy as np
from answers import agreement
from contender import OPENED, Run
from samples import samples_of

Contender = dict[str, Any]

QUICK_S, QUICK_RUNS = 0.2, 20
SLOW = 1.5
"""Quick ratio beyond which drift is not computed: such a result is no best peer, and some drifts take ten seconds."""


def main() -> None:
    """Judge those that have no answer yet."""
    asked, path = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    samples = samples_of(asked["judged"])
    original, names = OPENED["ort"]({"path": asked["model"]}), output_names(asked["model"])
    gate, base_s = Gate(names, [original(sample) for sample in samples]), quick(original, samples[0])
    for one in asked["contenders"]:
        if one["key"] in found:
            continue
        found[one["key"]] = {"error": "it crashed"}
        path.write_text(json.dumps(found))
        try:
            run = OPENED[one["kind"]](one)
            if asked["task"]:
                found[one["key"]] = {"answers": agreement(asked["task"], original, run)}
            else:
                found[one["key"]] = judged(run, samples, gate, base_s, is_ours=one["tool"] == "optim")
        except (Exception, SystemExit) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            found[one["key"]] = {"error": lines[-1].strip()[:200]}
        path.write_text(json.dumps(found))
    path.write_text(json.dumps(found))


def judged(run: Run, samples: list[Any], gate: Gate, base_s: float, *, is_ours: bool) -> dict[str, Any]:
    """The median of a few runs beside the original's, and drift with its place.

    Raises:
        ValueError: it is too slow to be judged, or its outputs cannot be compared.
    """
    first = run(samples[0])
    ratio = quick(run, samples[0]) / base_s
    if ratio > SLOW and not is_ours:
        raise ValueError(f"not judged: at a first look it takes {ratio:.1f} times as long as the original")
    return {**gate.worst([first, *(run(sample) for sample in samples[1:])]), "quick_ratio": ratio}


class Gate:
    """What optim.drift.compare_outputs does, with the original's variation measured once for all contenders."""

    def __init__(self, names: list[str], expected: list[list[Any]]) -> None:
        from optim._engine.gate.outputs import elements
        from optim._engine.gate.variation import measure

        self.names = names
        self.expected = [elements(dict(zip(names, outputs, strict=True))) for outputs in expected]
        self.variations = {name: measure([(one[name], None) for one in self.expected]) for name in self.expected[0]}

    def worst(self, found: list[list[Any]]) -> dict[str, Any]:
        """The drift of the worst output and sample, and where it is.

        Raises:
            ValueError: the outputs cannot be compared.
        """
        from optim._engine.gate.drift import merge_samples
        from optim._engine.gate.outputs import compare_sample, elements

        merged: Any = {}
        for original, outputs in zip(self.expected, found, strict=True):
            other = elements(dict(zip(self.names, outputs, strict=True)))
            merged = merge_samples(merged, compare_sample(original, other, {}, None, self.variations))
        compared = list(merged.values())
        if problem := next((f"{one.name}: {one.problem}" for one in compared if one.problem), ""):
            raise ValueError(problem)
        if all(one.unjudged for one in compared):
            raise ValueError(f"not judged: {compared[0].unjudged}")
        far = max(compared, key=lambda one: one.relative_error)
        where = f"{far.name}, {far.where}" if far.where else far.name
        return {"drift": far.relative_error, "where": where, "unjudged": [one.name for one in compared if one.unjudged]}


def quick(run: Run, sample: Any) -> float:
    """Median seconds of a few runs."""
    run(sample)
    times: list[float] = []
    while len(times) < 3 or (sum(times) < QUICK_S and len(times) < QUICK_RUNS):
        began = time.perf_counter()
        run(sample)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def output_names(path: str) -> list[str]:
    """Of a model."""
    import onnx

    return [one.name for one in onnx.load(path, load_external_data=False).graph.output]


if __name__ == "__main__":
    main()
