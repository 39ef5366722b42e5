"""Contenders on one model, timed in turns on one device: a process of its own for ``gpu.py``.

    python benchmarks/gpu/gpu_contenders.py '{"model": "minilm", "file": "...", "batch": 8, ...}'

Prints lines of JSON, each with all that is known by then: for each contender its milliseconds (median of rounds), its
ratio to the first that ran with a 95 % interval, its drift from it, as the gate defines it, and on what it
ran, or why it did not. The last line counts: a process that is ended for its time has said what ran before. Inputs lie
on the device before a run, and a run is over when the device is done.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "table"))
from samples import drift
from turns import in_turns, ratio

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "models")]

Run = Callable[[], dict[str, Any]]
_LEAST_ROUNDS, _WARM = 5, 3
"""Runs before a contender is timed: kernels are chosen and memory is taken in the first."""

_OPENING = 0.7
"""Share of the seconds in which contenders are opened; what is not begun by then is left out."""

_FIRST_LOOK_S = 0.5
"""Each is timed beside the first for so long as soon as it is open."""

Arrays = dict[str, np.ndarray]


def main() -> None:
    """Open what opens, time it in turns, and say the rest."""
    asked = json.loads(sys.argv[1])
    feeds = batched(dict(np.load(asked["feeds"])), asked["batch"])
    found: dict[str, dict[str, Any]] = {}
    runs: dict[str, Run] = {}
    reference: Arrays = {}
    begun = time.perf_counter()
    for name, opening in contenders(asked, feeds):
        started = time.perf_counter()
        left_s = asked["seconds"] - (started - begun)
        if started - begun > _OPENING * asked["seconds"]:
            found[name] = {"not run": "its time was up: those before it took all"}
            continue
        try:
            run, where = opening()
            outputs = run()
            for _ in range(_WARM):
                run()
        except Exception as error:  # whatever it is, the others are timed
            found[name] = {"not run": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
            continue
        arrays = {key: np.asarray(value, np.float64) for key, value in outputs.items()}
        reference = reference or arrays
        shared = {key: array for key, array in reference.items() if key in arrays}
        opened_s = round(time.perf_counter() - started, 1)
        found[name] = {"on": where, "opened in s": opened_s, "drift": drift([(shared, arrays)])}
        runs[name] = run
        first = next(iter(runs))
        pair = {first: in_seconds(runs[first]), name: in_seconds(run)}
        note(found, in_turns(pair, rounds=_LEAST_ROUNDS, seconds=min(_FIRST_LOOK_S, left_s)), only=name)
        print(json.dumps(found), flush=True)
    seconds = min(asked["timing_s"], asked["seconds"] - (time.perf_counter() - begun))
    note(found, in_turns({name: in_seconds(run) for name, run in runs.items()}, rounds=_LEAST_ROUNDS, seconds=seconds))
    print(json.dumps(found), flush=True)
    if "growing" in asked:
        found["growing"] = growing(asked, feeds)
        print(json.dumps(found), flush=True)


def batched(feeds: Arrays, batch: int) -> Arrays:
    """The sample so many times; a decoder's past grows with it."""
    return {name: np.repeat(array, batch, axis=0) for name, array in feeds.items()}


def note(found: dict[str, dict[str, Any]], times: dict[str, list[float]], only: str = "") -> None:
    """Put medians of rounds in, and ratios to the first with their intervals."""
    for name, seconds in times.items():
        if only in ("", name) or "ms" not in found[name]:
            found[name]["ms"] = round(statistics.median(seconds) * 1e3, 4)
            found[name]["ratio"] = ratio(seconds, times[next(iter(times))])
            found[name]["rounds"] = len(seconds)


def in_seconds(run: Run) -> Callable[[], float]:
    """A run that tells how long it took, the device's work included."""

    def turn() -> float:
        started = time.perf_counter()
        run()
        return time.perf_counter() - started

    return turn


def contenders(asked: dict[str, Any], feeds: Arrays) -> Iterator[tuple[str, Callable[[], tuple[Run, str]]]]:
    """Name and opening of each; ONNX Runtime's default first, then optim: time may be up before the last."""
    device, file = asked["device"], Path(asked["file"])
    yield "onnxruntime default", lambda: onnxruntime_run(file, device, feeds)
    for name, folder in asked["results"].items():
        yield name, lambda folder=folder: result_run(Path(folder), device, feeds)
    yield "transformer optimizer, float16", lambda: optimizer_run(file, asked, feeds)
    for mode in ("eager", "script", "compile"):
        for dtype in ("float32", "float16"):
            yield f"torch {mode}, {dtype}", lambda mode=mode, dtype=dtype: torch_run(asked, mode, dtype, feeds)


def onnxruntime_run(file: Path, device: str, feeds: Arrays, session: Any = None) -> tuple[Run, str]:
    """A session with inputs on the device and outputs left there."""
    import onnxruntime as ort

    if session is None:
        if hasattr(ort, "preload_dlls"):
            ort.preload_dlls()
        wanted = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
        session = ort.InferenceSession(str(file), _session_options(device), providers=[wanted], enable_fallback=False)
        if session.get_providers()[0] != wanted:
            raise RuntimeError(f"{wanted} could not be started; onnxruntime would run it on the CPU")
    binding = session.io_binding()
    for value in session.get_inputs():
        array = feeds[value.name]
        if value.type == "tensor(float16)":
            array = array.astype(np.float16)
        binding.bind_ortvalue_input(value.name, ort.OrtValue.ortvalue_from_numpy(array, device, 0))
    names = [value.name for value in session.get_outputs()]
    for name in names:
        binding.bind_output(name, device, 0)

    def run() -> dict[str, Any]:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return Later(names, binding.copy_outputs_to_cpu)

    return run, " and ".join(session.get_providers())


def _session_options(device: str) -> Any:
    """Defaults; in a rehearsal one thread, which does not spin: those of torch would wait for it a second a run."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    if device == "cpu":
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


class Later(dict[str, Any]):
    """Outputs that are copied from the device when somebody looks at them: copies are not in the figure."""

    def __init__(self, names: list[str], copy: Callable[[], Any]) -> None:
        super().__init__()
        self._names, self._copy = names, copy

    def items(self) -> Any:
        """Names and arrays."""
        return dict(zip(self._names, self._copy(), strict=True)).items()


def optimizer_run(file: Path, asked: dict[str, Any], feeds: Arrays) -> tuple[Run, str]:
    """``onnxruntime.transformers.optimizer`` for the GPU, and its conversion to float16."""
    made, kind = optimized(file, asked["model"], use_gpu=asked["device"] == "cuda")
    made.convert_float_to_float16(keep_io_types=True)
    path = Path(asked["scratch"]) / "optimizer.onnx"
    made.save_model_to_file(str(path))
    run, where = onnxruntime_run(path, asked["device"], feeds)
    return run, f"{where}, optimized as {kind}"


def optimized(file: Path, model: str, *, use_gpu: bool) -> tuple[Any, str]:
    """What the optimizer makes of a model, and the first kind of model for which it does not fail.

    Its last step for gpt2 fails on a product without a bias, which exports by dynamo have.
    """
    from onnxruntime.transformers.optimizer import optimize_model

    encoder, decoder = ("bert",), ("gpt2", "bert")
    kinds = {"minilm": encoder, "minilm-untrained": encoder, "gpt2": decoder, "llama": decoder}.get(model)
    if kinds is None:
        raise RuntimeError("it is for transformers")
    for kind in kinds:
        try:
            return optimize_model(str(file), model_type=kind, use_gpu=use_gpu, opt_level=1), kind
        except Exception:
            if kind == kinds[-1]:
                raise
    raise AssertionError


def result_run(folder: Path, device: str, feeds: Arrays) -> tuple[Run, str]:
    """What optim delivered, opened by its own ``load.py``."""
    import runpy

    if not (folder / "load.py").is_file():
        raise RuntimeError(f"optim delivered nothing: {folder.with_name(f'{folder.name}.txt').read_text()[-300:]}")
    session = runpy.run_path(str(folder / "load.py"))["load"]()
    return onnxruntime_run(folder / "model.onnx", device, feeds, session)


def torch_run(asked: dict[str, Any], mode: str, dtype: str, feeds: Arrays) -> tuple[Run, str]:
    """The module itself: as it is, traced, or compiled."""
    import torch
    from exports import MODELS

    device = asked["device"]
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} has no CUDA here")
    if device == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    built = MODELS[asked["model"]](np.random.default_rng(0), asked["tiny"])
    kind = getattr(torch, dtype)
    module = built.module.to(device=device, dtype=kind)
    tensors = [torch.from_numpy(feeds[name]).to(device) for name in built.samples[0]]
    tensors = [one.to(kind) if one.is_floating_point() else one for one in tensors]
    nested = built.nested
    given: list[Any] = [*tensors[:-nested], tensors[-nested:]] if nested else tensors
    with torch.no_grad():
        if mode == "script":
            module = torch.jit.freeze(torch.jit.trace(module, tuple(given), strict=False, check_trace=False))
        elif mode == "compile":
            module = torch.compile(module, mode="reduce-overhead" if device == "cuda" else None)

    def run() -> dict[str, Any]:
        with torch.no_grad():
            outputs = module(*given)
            if device == "cuda":
                torch.cuda.synchronize()
        found = outputs if isinstance(outputs, tuple | list) else (outputs,)
        return Later(built.outputs, lambda: [one.float().cpu().numpy() for one in found])

    return run, torch.cuda.get_device_name() if device == "cuda" else "the CPU, by torch"


def growing(asked: dict[str, Any], feeds: Arrays) -> dict[str, float]:
    """Milliseconds of the first call, of calls with ever greater inputs, and of the same sizes once more.

    ONNX Runtime takes memory again, and chooses kernels again, at each new greatest size.
    """
    import onnxruntime as ort

    wanted = "CUDAExecutionProvider" if asked["device"] == "cuda" else "CPUExecutionProvider"
    session = ort.InferenceSession(asked["file"], providers=[wanted], enable_fallback=False)
    sizes = [1, 2, 4, 8]

    def each() -> list[float]:
        times = []
        for size in sizes:
            given = {name: np.repeat(array[:1], size, axis=0) for name, array in feeds.items()}
            started = time.perf_counter()
            session.run(None, {value.name: given[value.name] for value in session.get_inputs()})
            times.append((time.perf_counter() - started) * 1e3)
        return times

    first, again = each(), each()
    return {"first call": first[0], "growing": statistics.mean(first[1:]), "sizes seen before": statistics.mean(again)}


if __name__ == "__main__":
    main()
