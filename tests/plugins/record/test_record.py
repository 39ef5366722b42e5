"""A pipeline that is recorded: what is seen of it, that it stays as it was, and which swaps hold on what it returns."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import optim
from optim import OptimError
from optim_plugins.record.answers import OptimizedModule
from optim_plugins.record.modules import PipelineModule
from optim_plugins.record.optimizing import Optimizing, _Swap
from optim_testing import models


@pytest.fixture
def session(tmp_path: Path) -> ort.InferenceSession:
    return ort.InferenceSession(models.mlp(tmp_path), providers=["CPUExecutionProvider"])


@pytest.fixture
def pipe(session: ort.InferenceSession) -> Any:
    from recorded_pipes import Pipe

    return Pipe(session)


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)


def module(recorder: Any, name: str) -> PipelineModule:
    return next(one for one in recorder._modules if one.name == name)


def prove(recorder: Any, functions: dict[str, Any], max_drift: float = 0.1) -> list[OptimizedModule]:
    """What becomes of functions that are put in place of modules; both drift alike in their own runs."""
    work = Optimizing(recorder._modules, recorder._entrances, Path(), 0.0, print)
    swaps = []
    for name, function in functions.items():
        one = module(recorder, name)
        row = OptimizedModule(name=name, kind=one.kind, status="swapped", reason="", drift=float(name != "net"))
        swaps.append(_Swap(one, row, function))
    work._prove(swaps, max_drift)
    return [swap.row for swap in swaps]


def test_calls_of_the_outermost_modules_and_of_the_pipeline_are_kept_and_the_pipeline_is_left_as_it_was(
    pipe: Any, session: ort.InferenceSession
) -> None:
    plain = pipe(rows(3))
    own, before = type(pipe), (vars(pipe).copy(), vars(session).copy(), vars(pipe.net).copy())
    with optim.record(pipe) as recorder:
        pipe(rows(3))
        pipe.scores(rows(5))
        pipe(rows(2), scale=2.0)
    assert (vars(pipe), vars(session), vars(pipe.net)) == before
    assert type(pipe) is own
    found = recorder.recorded
    assert found.calls == 3
    assert {(one.name, one.kind, one.calls) for one in found.modules} == {
        ("net", "torch", 3),
        ("stages.0.last", "onnxruntime", 3),
    }
    assert 0 < sum(one.share for one in found.modules if one.share) <= 1
    assert "<td>stages.0.last</td>" in recorder._repr_html_()
    kept = module(recorder, "net").calls.calls
    assert [call.given["x"].shape for call in kept] == [(3, 8), (5, 8), (2, 8)]
    assert [call.returned["hidden"].shape for call in kept] == [(3, 32), (5, 32), (2, 32)]
    np.testing.assert_array_equal(recorder._entrances.calls.calls[0].returned["scores"], plain["scores"])
    assert pipe(rows(3))["scores"].shape == (3, 10)
    assert recorder.recorded.calls == 3  # nothing listens any more


def test_a_module_is_replaced_on_calls_like_those_that_were_recorded_and_runs_itself_on_others(pipe: Any) -> None:
    with optim.record(pipe) as recorder:
        pipe(rows(3))
        pipe(rows(5))
    import torch

    net, expected = module(recorder, "net"), pipe(rows(4))

    class Graph:
        """Counts its runs."""

        runs = 0

        def get_inputs(self) -> list[Any]:
            return [_Value("x", ["n", 8])]

        def get_outputs(self) -> list[Any]:
            return [_Value("hidden", ["n", 32])]

        def run(self, _: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
            self.runs += 1
            with torch.no_grad():
                return [pipe.net.inner(torch.from_numpy(feeds["x"])).numpy()]

    graph = Graph()
    net.install(net.bind(graph, net.calls.calls[0]))
    given = {"x": torch.from_numpy(rows(4)), "kind": "text"}
    returned = pipe.net(given)
    assert returned is given
    assert graph.runs == 1
    np.testing.assert_allclose(pipe(rows(4))["scores"], expected["scores"], rtol=1e-5)
    assert graph.runs == 2
    pipe(rows(4), scale=2.0)
    pipe.net({"x": torch.from_numpy(rows(4)), "kind": "image"})
    pipe.net.train()
    pipe.net(given)
    assert graph.runs == 2
    net.restore()


class _Value:
    def __init__(self, name: str, shape: list[Any]) -> None:
        self.name, self.shape = name, shape


def test_a_swap_that_breaks_what_the_pipeline_returns_is_taken_back_with_the_reason(pipe: Any, tmp_path: Path) -> None:
    with optim.record(pipe) as recorder:
        for seed in range(3):
            pipe(rows(4, seed))
    import torch

    net, last = module(recorder, "net"), module(recorder, "stages.0.last")

    other = ort.InferenceSession(models.mlp(tmp_path, width=48), providers=["CPUExecutionProvider"])
    wrong = last.bind(other, last.calls.calls[0])

    instant = {str(call.given["x"].sum()): call for call in net.calls.calls}

    def right(features: dict[str, Any]) -> dict[str, Any]:
        found = instant[str(features["x"].numpy().sum())].returned["hidden"]
        return {"hidden": torch.from_numpy(found)}

    of_net, of_last = prove(recorder, {"net": right, "stages.0.last": wrong})
    assert of_last.status == "taken back"
    assert "with it the pipeline is beyond the budget: " in of_last.reason
    assert "run" not in vars(last.subject)
    assert of_net.status in ("swapped", "taken back")  # the second if right was no faster in this race
    recorder.restore()


def test_a_swap_that_is_slower_in_the_pipeline_is_taken_back(pipe: Any) -> None:
    with optim.record(pipe) as recorder:
        pipe(rows(4))
    last = module(recorder, "stages.0.last")

    def twice(*args: Any, **named: Any) -> Any:
        for _ in range(20):
            found = last.original(*args, **named)
        return found

    (row,) = prove(recorder, {"stages.0.last": twice})
    assert row.status == "taken back"
    assert "times as long as the original in the pipeline" in row.reason
    assert row.ratio_in_place is not None
    assert row.ratio_in_place > 2


def test_a_swap_that_the_pipeline_does_not_call_again_is_taken_back(pipe: Any) -> None:
    known: dict[int, Any] = {}

    def cached(x: np.ndarray) -> Any:
        if len(x) not in known:
            known[len(x)] = pipe(x)
        return known[len(x)]

    with optim.record(cached) as recorder:
        recorder(rows(4))
    (last,) = (one for one in recorder._modules if one.kind == "onnxruntime")
    (row,) = prove(recorder, {last.name: lambda *_: []})
    assert "did not call it" in row.reason
    known.clear()
    (row,) = prove(recorder, {last.name: lambda *_: []})
    assert "it raised ValueError: not enough values to unpack" in row.reason
    assert pipe(rows(4))["scores"].shape == (4, 10)


def test_a_function_is_called_through_the_recorder_and_its_modules_are_found(session: ort.InferenceSession) -> None:
    def function(x: np.ndarray, one: Any = session) -> np.ndarray:
        return held.run(None, {"x": x})[0]

    held = session
    with optim.record(functools.partial(function, one=None)) as recorder:
        recorder(np.ones((2, 32), np.float32))
        function(np.ones((1, 32), np.float32))
    assert (recorder.recorded.calls, recorder.recorded.modules[0].calls) == (1, 2)


def test_threads_and_a_limit_of_calls(pipe: Any) -> None:
    with optim.record(pipe, limit=4) as recorder:
        threads = [threading.Thread(target=pipe, args=(rows(2, seed),)) for seed in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = recorder.recorded
    assert (found.calls, *(one.calls for one in found.modules)) == (12, 12, 12)
    assert len(module(recorder, "net").calls.calls) == 4


def test_a_pipeline_that_calls_its_modules_in_threads_of_its_own_can_be_repeated(session: ort.InferenceSession) -> None:
    from recorded_pipes import Threaded

    with optim.record(Threaded(session)) as recorder:
        recorder.pipe(rows(4))
    assert (recorder.recorded.calls, *(one.calls for one in recorder.recorded.modules)) == (1, 2, 2)
    Optimizing(recorder._modules, recorder._entrances, Path(), 1.0, print)._require_repeatable(0.01)


def test_an_exception_in_the_block_is_handed_on_and_everything_is_restored(pipe: Any) -> None:
    own, before = type(pipe), vars(pipe.net).copy()
    with pytest.raises(KeyboardInterrupt), optim.record(pipe):
        pipe(rows(1))
        raise KeyboardInterrupt
    assert vars(pipe.net) == before
    with pytest.raises(ValueError, match="scale"), optim.record(pipe):
        pipe.net.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(ValueError("scale")))
        pipe(rows(1))
    assert (type(pipe), vars(pipe).keys()) == (own, {"net", "stages"})


def test_a_pipeline_that_changes_its_arguments_is_repeated_on_copies(session: ort.InferenceSession) -> None:
    from recorded_pipes import Mutating

    pipe, x = Mutating(session), rows(3)
    with optim.record(pipe) as recorder:
        pipe(x)
    np.testing.assert_array_equal(x, 2 * rows(3))  # the caller's own array, as without optim
    assert "the pipeline changes its arguments" in recorder.recorded.notes[0]
    Optimizing(recorder._modules, recorder._entrances, Path(), 1.0, print)._require_repeatable(0.01)


@pytest.mark.parametrize(
    ("outputs", "reference", "cause"),
    [
        (lambda found: object(), "result-not-arrays", "it: object"),
        (lambda found: np.random.default_rng().random(8), "not-repeatable", "is beyond the budget"),
    ],
)
def test_a_pipeline_that_cannot_be_proved_is_refused_before_anything_is_run(
    pipe: Any, tmp_path: Path, outputs: Any, reference: str, cause: str
) -> None:
    with optim.record(pipe, outputs=outputs) as recorder:
        pipe(rows(2))
        pipe(rows(3))
    with pytest.raises(OptimError, match=reference) as caught:
        recorder.optimize(tmp_path / "out")
    assert cause in caught.value.cause
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_recorded_is_an_error_that_says_what_to_do(pipe: Any, session: ort.InferenceSession) -> None:
    with pytest.raises(OptimError, match="no-module") as caught:
        optim.record(object())
    assert "modules={" in caught.value.fix
    with pytest.raises(OptimError, match="no-module") as caught:
        optim.record(pipe, modules={"net": "net"})
    assert caught.value.what == "'net' is not a module"
    with pytest.raises(OptimError, match="nothing-recorded"), optim.record(pipe):
        pass
    with optim.record(session) as recorder:  # the pipeline is the module
        session.run(None, {"x": np.ones((1, 32), np.float32)})
    assert recorder.recorded.calls == 1
    assert "run" not in vars(session)


def test_a_module_without_a_graph_stays_with_the_reason_and_those_inside_are_looked_at(tmp_path: Path) -> None:
    import torch
    from recorded_pipes import Box, Odd

    odd = Odd().eval()

    def pipe(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return odd(Box(x)).numpy()

    with optim.record(pipe) as recorder:
        recorder(rows(2))
    work = Optimizing(recorder._modules, recorder._entrances, tmp_path, 0.0, print)
    work._require_repeatable(0.1)
    (whole, *inside) = _looked(work, recorder)
    assert whole.row.reason == "it takes a Box, and a graph takes tensors"
    assert [one.name for one in inside] == ["odd.parts.0", "odd.parts.1"]
    assert inside[1].calls.calls[0].problem == "it changes its input 'x' in place, which a graph cannot do"


def _looked(work: Optimizing, recorder: Any) -> list[Any]:
    """The module, and those inside it with their calls, without a run."""
    (outer,) = recorder._modules
    work._inside = lambda *_: []  # type: ignore[method-assign]
    return [*work._module(outer, 1.0, {}), *outer.inner(outer.calls.room)]
