"""Which models are searched on a stand-in, and what names of its nodes mean in the whole model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from optim._engine.graphs.shared_weights import lay_on_weights_of
from optim._engine.runs import execute, judge
from optim._engine.runs.stand_in import carry, layers, search
from optim._engine.runs.stand_in.layers import StandIn, stand_in_for
from optim._engine.runs.stand_in.names import counterparts, options_of_whole
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.time_estimate import Load
from optim.errors import OptimError
from optim.model import Model
from optim.onnx.external_data import external_files
from optim.onnx.files import save_in_store

LARGE = Load(size_bytes=8_000_000_000, nodes=2400, samples=8, open_s=8.0, run_s=2.0)
MIDDLE = Load(size_bytes=800_000_000, nodes=900, samples=8, open_s=0.7, run_s=0.1)
LAYER = [("", "MatMul", 2), ("", "Add", 2), ("", "Softmax", 1)]


def bench(tmp_path: Any, *, left: float = 240.0, layers: object = 40, export_s: float = 100.0, **settings: Any) -> Any:
    """What is looked at of a run's workbench."""
    facts = {} if layers is None else {"layers": layers}
    return SimpleNamespace(
        settings=RunSettings(source=tmp_path, **settings),
        exported=SimpleNamespace(graphs=[None], facts=facts, seconds=export_s),
        elsewhere=None,
        target=SimpleNamespace(timed=True),
        deadline=SimpleNamespace(left=left),
    )


PLAN: Any = SimpleNamespace(names=[f"ort.pass-{place}" for place in range(17)])


def test_a_model_that_would_take_longer_than_its_time_is_searched_on_its_first_layers(tmp_path) -> None:
    found = stand_in_for(bench(tmp_path), PLAN, LARGE)
    assert found is not None and found.text == "4 of 40 layers"
    assert "the whole model would take about" in found.note
    more = stand_in_for(bench(tmp_path, left=600.0), PLAN, LARGE)
    assert more is not None and more.layers > found.layers


@pytest.mark.parametrize(
    ("load", "changed"),
    [
        (MIDDLE, {}),
        (MIDDLE, {"left": 100.0, "layers": 12}),
        (LARGE, {"left": 70.0}),
        (LARGE, {"export_s": 1000.0}),
        (LARGE, {"left": 9000.0}),
        (LARGE, {"layers": None}),
        (LARGE, {"layers": 5}),
        (LARGE, {"chain": ()}),
        (LARGE, {"named": (Named("ort.quantize-weights", {"keep": ["head"]}),)}),
    ],
    ids=[
        "in time",
        "time for a few chains",
        "less than an export takes",
        "a slow export",
        "much time",
        "no layers known",
        "few layers",
        "a lock",
        "nodes named",
    ],
)
def test_others_are_searched_whole(tmp_path, load: Load, changed: dict[str, Any]) -> None:
    assert stand_in_for(bench(tmp_path, **changed), PLAN, load) is None


def test_the_whole_model_is_searched_where_its_first_layers_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OptimError("source-export-failed", "it does not export")

    notes: list[str] = []
    run: Any = SimpleNamespace(deadline=SimpleNamespace(note=notes.append))
    monkeypatch.setattr(layers, "stand_in_for", lambda *_: StandIn(layers=4, whole=40, search_s=900.0))
    monkeypatch.setattr(search, "search_stand_in", refuse)
    monkeypatch.setattr(judge, "judge_search", lambda *_: "of the whole")
    found: Any = execute._searched(run, PLAN, LARGE)
    assert found == "of the whole"
    assert notes == ["optim searched the whole model, because the search on 4 of 40 layers failed: it does not export"]


@pytest.mark.parametrize(("each_s", "applied"), [(20.0, ["a", "b", "c"]), (40.0, ["a", "b"]), (95.0, ["a"])])
def test_what_came_next_is_applied_to_the_whole_model_while_the_run_has_time_for_it(
    monkeypatch: pytest.MonkeyPatch, each_s: float, applied: list[str]
) -> None:
    seconds, tried, notes = [0.0], [], []

    class Time:
        note, spare_s = notes.append, property(lambda _: 100.0 - seconds[0])

        def now(self) -> float:
            return seconds[0]

    def apply(bench: Any, stand_in: Any, chain: Any) -> None:
        tried.append(chain.text)
        seconds[0] += each_s
        raise OptimError("replay-failed", "it does not repeat", "it is beyond the budget")

    run: Any = SimpleNamespace(deadline=Time(), say=lambda _: None)
    found: Any = SimpleNamespace(chains=[SimpleNamespace(text=name) for name in "abc"])
    monkeypatch.setattr(carry, "_applied", apply)
    monkeypatch.setattr(carry, "_nothing_held", lambda *_: "nothing")
    assert carry.judge_carried(run, PLAN, StandIn(layers=4, whole=40, search_s=900.0), found) == "nothing"
    assert tried == applied
    assert len(notes) == (1 if tried == ["a", "b", "c"] else 2)


def graph(count: int) -> list[tuple[str, tuple[str, str, int]]]:
    """Names and operators: two nodes before the layers, and one behind."""
    inside = [(f"{op.lower()}_{layer}", (domain, op, count)) for layer in range(count) for domain, op, count in LAYER]
    return [("embed", ("", "Gather", 2)), ("scale", ("", "Mul", 2)), *inside, ("head", ("", "MatMul", 2))]


def test_layers_between_the_first_and_the_last_take_turns() -> None:
    stand_in = StandIn(layers=4, whole=7, search_s=900.0)
    options = {"bits": 4, "keep": ("matmul_0", "add_2", "head"), "finer": ("softmax_3",)}
    found = options_of_whole(options, graph(4), graph(7), stand_in)
    assert found == {"bits": 4, "keep": ("matmul_0", "add_2", "add_4", "head"), "finer": ("softmax_6",)}


def test_names_are_not_carried_where_the_layers_are_others() -> None:
    stand_in = StandIn(layers=4, whole=7, search_s=900.0)
    whole = graph(7)
    whole[9] = ("gelu", ("", "Gelu", 1))
    assert counterparts([node for _, node in graph(4)], [node for _, node in whole], stand_in) is None
    assert counterparts([node for _, node in graph(4)], [node for _, node in graph(7)[:-1]], stand_in) is None
    assert options_of_whole({"keep": ("gone",)}, graph(4), graph(7), stand_in) is None


def test_weights_that_the_whole_model_has_lie_on_the_disk_once(tmp_path) -> None:
    random = np.random.default_rng(0)
    first, second, other = (random.standard_normal((32, 32)).astype(np.float32) for _ in range(3))
    whole = stored(tmp_path, {"first": first, "second": second})
    graph = summed({"a": second, "b": other, "c": np.negative(first)})
    lay_on_weights_of(graph, whole)
    small = save_in_store(graph, tmp_path)
    there = {name: value.const_value for name, value in small.ir().graph.initializers.items()}
    assert there["a"].location in external_files(whole.path)
    assert {there["b"].location, there["c"].location} <= set(external_files(small.path)) - set(
        external_files(whole.path)
    )
    assert all(np.array_equal(there[name], array) for name, array in (("a", second), ("b", other), ("c", -first)))


def stored(store: Path, weights: dict[str, np.ndarray]) -> Model:
    """A model in the store that adds its weights up."""
    return save_in_store(summed(weights), store)


def summed(weights: dict[str, np.ndarray]) -> ir.Model:
    """A graph that adds its weights up."""
    info = onnx.helper.make_tensor_value_info("y", 1, [32, 32])
    nodes = [onnx.helper.make_node("Sum", list(weights), ["y"])]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    made = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "graph", [], [info], tensors), opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    return ir.from_proto(made)
