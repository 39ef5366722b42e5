"""A result's graph put where a layout wants it, and results that a layout has no word for."""

from __future__ import annotations

import shutil
from pathlib import Path

from optim.errors import OptimError
from optim.layout.contract import Result

LARGEST_GRAPH = (1 << 31) - (1 << 26)
"""Largest size of a graph with its weights: a message of protobuf has at most 2 GiB, of which nodes may take 64 MiB."""


def place_graph(result: Result, path: Path, *, data_suffix: str = ".data", embed: bool = False) -> Path:
    """Copies the graph of a result, with its weights, to the place that a layout wants.

    The files are copies, because onnx refuses hard links to weights. A graph with external weights is written anew,
    because it names their file.

    Args:
        result: the result.
        path: file of the graph. The call makes its folder.
        data_suffix: suffix of the file of weights, after the name of the graph.
        embed: whether weights go into the graph itself, for consumers that expect one file; not beyond 2 GB.

    Returns:
        ``path``.

    Raises:
        OptimError[external-data-outside]: the graph names a file elsewhere. There are further errors for missing
            weights.
    """
    import onnx

    from optim.onnx.external_data import check_external_data
    from optim.onnx.linked import locations

    graph = onnx.load(result.model.path, load_external_data=False)
    check_external_data(graph, result.model.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = list(locations(graph))
    if not entries:
        shutil.copyfile(result.model.path, path)
        return path
    names = sorted({entry.value for entry in entries})
    if embed and sum((result.model.path.parent / name).stat().st_size for name in names) < LARGEST_GRAPH:
        onnx.save(onnx.load(result.model.path), path)
        return path
    new = {name: f"{path.name}{data_suffix}{f'.{number}' if number else ''}" for number, name in enumerate(names)}
    for name in names:
        shutil.copyfile(result.model.path.parent / name, path.parent / new[name])
    for entry in entries:
        entry.value = new[entry.value]
    path.write_bytes(graph.SerializeToString(deterministic=True))
    return path


def require_provider(result: Result, *, layout: str, providers: tuple[str, ...]) -> None:
    """Refuses a result for a target that the consumer of a layout does not know.

    Args:
        result: the result.
        layout: name of the layout.
        providers: providers of onnxruntime that the consumer can use.

    Raises:
        OptimError[layout-not-for-target]: the layout does not take this target. The error names those that it takes.
    """
    if result.target.provider not in providers:
        raise OptimError.usage(
            "layout-not-for-target",
            f"a result for target {result.target.name} cannot be delivered as {layout}",
            f"it runs on {result.target.runs_on}; {layout} is written for {', '.join(providers)}",
            "optim run MODEL --target cpu --deliver " + layout,
        )
