"""Several models compiled into one file: weights that they have in common lie in it once.

Before::

    prefill.onnx (weights)              decode.onnx (the same weights)

After::

    prefill.onnx -> EPContext           decode.onnx -> EPContext            shared.bin: both graphs, weights once

It is what a decoder needs that has one graph for the prompt and one for a token, or a model in several fixed shapes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from optim import ExitStatus, OptimError

if TYPE_CHECKING:
    from optim import Model, Target

_BINARY = "shared.bin"
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Shared:
    """What was written.

    Attributes:
        files: the graphs by the models' names, relative to the folder.
        binary: the file that they share.
        size_bytes: of all of it.
        samples: how many feeds gave the same outputs bit for bit, compiled and not, for each model; 0: none were run,
            since the simulator loads no file of several graphs.
    """

    files: Mapping[str, str]
    binary: str
    size_bytes: int
    samples: int


def share(paths: Sequence[Path], output: Path, target: Target, say: Callable[[str], None]) -> Shared:
    """Compile models together, check that each still computes the same on HTP, and write them.

    Args:
        paths: ``.onnx`` files or run folders, not compiled, with fixed shapes.
        output: a folder that is new or empty.
        target: HTP, with its chip.
        say: told what is going on.

    Raises:
        OptimError[not-shared]: fewer than two models, or one that is compiled already or dynamic.
        OptimError[folder-not-empty]: ``output`` holds something.
        OptimError[not-compiled]: the compiler's reason.
        OptimError[other-outputs]: a compiled model computes something else.
    """
    from optim.cli_kit import read_model
    from optim_qnn.compile.compiler import run_compiler

    names = _names(paths)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise OptimError.usage(
            "folder-not-empty",
            f"{output} is there already",
            "what is in it would be mixed with the shared models",
            "-o another-folder",
            "optim-plugin-qnn",
        )
    with TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        work.mkdir()
        models = []
        for name, path in zip(names, paths, strict=True):
            say(f"reading {path}")
            model = read_model(path / "model.onnx" if path.is_dir() else path, Path(scratch) / "models")
            _require_ready(model, path)
            _write(model, work / f"{name}.float.onnx")
            models.append(model)
        say("compiling")
        run_compiler({**_request(target), "share": names}, work)
        binary = _gather(work, names)
        samples = 0
        if target.timed:  # the simulator refuses such a file (QNN_COMMON_ERROR_NOT_SUPPORTED), and may crash over it
            say("comparing")
            samples = _compare(models, [work / f"{name}.onnx" for name in names], target, Path(scratch))
        output.mkdir(parents=True, exist_ok=True)
        for name in (*(f"{name}.onnx" for name in names), binary):
            shutil.copyfile(work / name, output / name)
    size = sum(path.stat().st_size for path in output.iterdir())
    return Shared({name: f"{name}.onnx" for name in names}, binary, size, samples)


def _names(paths: Sequence[Path]) -> list[str]:
    names = [path.resolve().name if path.is_dir() else path.stem for path in paths]
    if len(paths) < 2 or len(set(names)) < len(names):
        raise OptimError.usage(
            "not-shared",
            "there is nothing to share",
            f"the models are {', '.join(names)}",
            "optim qnn share prefill.onnx decode.onnx -o shared: two or more, with names of their own",
            "optim-plugin-qnn",
        )
    return names


def _require_ready(model: Model, path: Path) -> None:
    compiled = any(node.op_type == "EPContext" for node in model.ir().graph)
    dynamic = [info.name for info in model.inputs if info.is_dynamic]
    if compiled or dynamic:
        raise OptimError.usage(
            "not-shared",
            f"{path} cannot be compiled with others",
            "it is compiled already" if compiled else f"its input {dynamic[0]} is dynamic",
            f"optim run {path} --target qnn --without qnn.context-binary -o prepared   # then share prepared",
            "optim-plugin-qnn",
        )


def _request(target: Target) -> dict[str, Any]:
    options = {**target.provider_options, "enable_htp_weight_sharing": "1"}
    return {"provider": target.provider, "library": target.library, "options": options, "fallback": target.fallback}


def _write(model: Model, path: Path) -> None:
    import onnx_ir

    onnx_ir.save(model.ir(), path, external_data=f"{path.stem}.data")


def _gather(work: Path, names: Sequence[str]) -> str:
    """Call the file that the compiler made ``shared.bin``, and refer to it so."""
    import onnx_ir

    for name in names:
        graph = onnx_ir.load(work / f"{name}.onnx")
        for node in graph.graph:
            if node.op_type == "EPContext":
                made = work / (node.attributes.get_string("ep_cache_context") or "")
                if made.name != _BINARY and made.is_file():
                    made.replace(work / _BINARY)
                node.attributes["ep_cache_context"] = onnx_ir.AttrString("ep_cache_context", _BINARY)
        onnx_ir.save(graph, work / f"{name}.onnx")
    return _BINARY


def _compare(models: Sequence[Model], compiled: Sequence[Path], target: Target, scratch: Path) -> int:
    from optim.jobs import WorkerFailed, run_job, to_wire
    from optim_qnn.compile import same_outputs

    request = same_outputs.Request(tuple(models), tuple(compiled), target.plain, scratch)
    try:
        answer, _ = run_job(same_outputs.__name__, to_wire(request), _TIMEOUT_S)
    except WorkerFailed as failure:
        if failure.error is not None:
            raise failure.error from failure
        raise OptimError(
            "other-outputs",
            "a shared model does not run",
            failure.reason,
            "compile the models one by one",
            "onnxruntime-qnn",
            ExitStatus.NOT_HELD,
        ) from failure
    return int(answer["samples"])
