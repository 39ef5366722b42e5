"""A result's graph put where a layout wants it, and results that a layout has no word for."""

from __future__ import annotations

import shutil
from pathlib import Path

from optim.errors import OptimError
from optim.layout.contract import Result

LARGEST_GRAPH = (1 << 31) - (1 << 26)
"""A graph is one message of protobuf, of 2 GiB at most; 64 MiB are left for nodes."""


def place_graph(result: Result, path: Path, *, data_suffix: str = ".data", embed: bool = False) -> Path:
    """Put the result's graph, with its weights, where a layout wants it.

    Files are copies, no hard links: onnx refuses weights in a file that has two names. A graph with external weights is
    written anew, since it names their file.

    Args:
        result: whose graph.
        path: of the graph; its folder is made.
        data_suffix: what the name of the file of weights has behind that of the graph.
        embed: whether weights go into the graph itself, for consumers that look for one file; not beyond 2 GB.

    Returns:
        ``path``.

    Raises:
        OptimError[external-data-outside]: the graph names a file elsewhere; others, where its weights are not there.
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
    """Refuse a result of a target that a layout's consumer has no word for.

    Args:
        result: that is to be laid out.
        layout: its name.
        providers: of onnxruntime that the consumer can be told to open models with.

    Raises:
        OptimError[layout-not-for-target]: says which targets it takes.
    """
    if result.target.provider not in providers:
        raise OptimError.usage(
            "layout-not-for-target",
            f"a result for target {result.target.name} cannot be delivered as {layout}",
            f"it runs on {result.target.runs_on}; {layout} is written for {', '.join(providers)}",
            "optim run MODEL --target cpu --deliver " + layout,
        )
