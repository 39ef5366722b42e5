"""``optim bench --grid``: sizes by dimension, a row for what the model refuses, CSV and a plot."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, save

from optim._engine.api import bench as api
from optim._engine.feeds.synthesize import sized_feeds
from optim._engine.goals.calls import Percentiles
from optim._engine.reports.answers import Benchmark, GridBenchmark, GridPoint, TimedModel, TimedShape
from optim._engine.runs.compare import bench as compare
from optim.errors import OptimError
from optim.onnx.files import describe_model
from optim_plugins.diagnose.bench.command import bench, parse_grid
from optim_plugins.report.lines import line_plot

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def encoder(folder: Path) -> Path:
    """Ids and their mask, over a table of 40 positions."""
    ids = helper.make_tensor_value_info("input_ids", INT64, ["batch", "sequence_length"])
    mask = helper.make_tensor_value_info("attention_mask", INT64, ["batch", "sequence_length"])
    fixed = helper.make_tensor_value_info("pixels", FLOAT, [2, 3])
    out = helper.make_tensor_value_info("y", INT64, ["batch", "sequence_length"])
    other = helper.make_tensor_value_info("z", FLOAT, [2, 3])
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["y"]),
        helper.make_node("Relu", ["pixels"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "g", [ids, mask, fixed], [out, other])
    save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("name", ["sequence_length", "sequence", "seq", "tokens"])
def test_a_dimension_is_named_as_in_the_model_or_by_what_it_counts(tmp_path: Path, name: str) -> None:
    feeds = sized_feeds(describe_model(encoder(tmp_path)), {"batch": 3, name: 17}, seed=0)
    assert {key: array.shape for key, array in feeds.items()} == {
        "input_ids": (3, 17),
        "attention_mask": (3, 17),
        "pixels": (2, 3),
    }


@pytest.mark.parametrize("name", ["height", "pixels", "samples"])
def test_a_dimension_that_is_not_free_is_unknown(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptimError, match="batch, sequence_length") as refused:
        sized_feeds(describe_model(encoder(tmp_path)), {name: 4}, seed=0)
    assert refused.value.reference == "unknown-dimension"


def test_inputs_that_would_fill_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError, match="would be too large") as refused:
        sized_feeds(describe_model(encoder(tmp_path)), {"batch": 100_000, "sequence": 10_000}, seed=0)
    assert refused.value.reference == "bad-grid"


@pytest.mark.parametrize("word", ["batch", "batch=", "batch=0", "batch=1,x", "batch=1 batch=2", "=3"])
def test_a_word_that_is_no_axis_is_refused(word: str) -> None:
    with pytest.raises(OptimError) as refused:
        parse_grid([word])
    assert refused.value.reference == "bad-grid"


def test_at_size_0_the_command_that_times_nothing_is_named() -> None:
    with pytest.raises(OptimError) as refused:
        parse_grid(["batch=0"])
    assert refused.value.fix == "optim export SOURCE -o exported makes the graphs and times nothing"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is timed; batch 32 is refused, the second model takes half as long."""
    found: list[Any] = []

    def bench_models(models: list[Path], asked: Any, say: Any, **named: Any) -> Benchmark:
        import numpy as np

        ids = np.load(asked.data)["0/input_ids"]
        found.append((ids.shape, asked.goal))
        if ids.shape[0] == 32:
            raise OptimError("feeds-refused", "the model refuses it", "out of memory")
        return Benchmark(
            target="cpu",
            feeds="feeds.npz",
            models=tuple(timed(str(model), ids.size / (1 + i)) for i, model in enumerate(models)),
        )

    monkeypatch.setattr(compare, "bench_models", bench_models)
    monkeypatch.setattr(api, "require_models", lambda models, data, target: None)
    return found


def timed(name: str, ms: float) -> TimedModel:
    calls = Percentiles(p50=ms, p90=2 * ms, p95=3 * ms, p99=4 * ms, calls=9)
    shape = TimedShape(shape="x", latency_ms=ms, ratio=1, ci=(1, 1), calls_ms=calls)
    return TimedModel(
        model=name,
        error=None,
        latency_ms=ms,
        size_bytes=1,
        peak_memory_bytes=1,
        latency_ratio=1,
        latency_ratio_ci=(1, 1),
        rounds=3,
        shapes=(shape,),
    )


def run(*words: str) -> Any:
    return CliRunner().invoke(bench, list(words), standalone_mode=False)


def test_every_combination_is_timed_and_what_is_refused_is_a_row(tmp_path: Path, asked: list[Any]) -> None:
    model = str(encoder(tmp_path))
    table, plot = tmp_path / "g.csv", tmp_path / "g.svg"
    other = shutil.copy(model, tmp_path / "other.onnx")
    done = run(model, str(other), "--grid", "batch=1,32", "sequence=2,4", "--csv", str(table), "--plot", str(plot))
    assert [shape for shape, _ in asked] == [(1, 2), (1, 4), (32, 2), (32, 4)]
    assert done.return_value == 3, done.output
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [(row["batch"], row["sequence"], row["ms"], row["p99"]) for row in rows[:3]] == [
        ("1", "2", "2", "8.000"),
        ("1", "2", "1", "4.000"),
        ("1", "4", "4", "16.000"),
    ]
    assert rows[4]["error"] == rows[5]["error"] == "the model refuses it: out of memory"
    assert len(list(ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}circle"))) == 4 + 4


def test_throughput_is_asked_for_at_every_point(tmp_path: Path, asked: list[Any]) -> None:
    done = run(str(encoder(tmp_path)), "--grid", "batch=2", "--throughput", "--max-latency", "9")
    assert done.return_value == 0, done.output
    assert asked == [((2, 128), "throughput")]


@pytest.mark.parametrize(
    ("words", "reference"),
    [
        (("--grid", "batch=1", "--data", "f.npz"), "conflicting-request"),
        (("--grid", "batch=1", "--beside", "torch-eager"), "conflicting-request"),
        (("--plot", "p.svg"), "conflicting-request"),
        (("--grid", "batch=1", "--plot", "p.png"), "bad-plot"),
        (("--grid", "batch=1,2,3,4,5,6,7,8,9,10,11", "sequence=1,2,3,4,5,6,7,8,9,10"), "bad-grid"),
        (("--max-latency", "9"), "conflicting-request"),
        (("--csv", "no/such/folder/t.csv"), "not-writable"),
    ],
)
@pytest.mark.usefixtures("asked")
def test_what_contradicts_itself_is_refused_before_anything_is_timed(
    tmp_path: Path, words: tuple[str, ...], reference: str
) -> None:
    done = run(str(encoder(tmp_path)), *words)
    assert isinstance(done.exception, OptimError), done.output
    assert done.exception.reference == reference


def test_two_names_of_one_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError, match="sequence_length and tokens cannot have sizes of their own") as refused:
        sized_feeds(describe_model(encoder(tmp_path)), {"sequence_length": 4, "tokens": 8}, seed=0)
    assert refused.value.reference == "conflicting-request"


def test_of_several_targets_each_row_and_each_line_names_its_own() -> None:
    models = tuple(timed("m", 2.0).model_copy(update={"target": name}) for name in ("cpu", "openvino"))
    points = [GridPoint(sizes={"batch": size}, error=None, models=models) for size in (1, 8)]
    found = GridBenchmark(target="cpu,openvino", points=(*points, GridPoint(sizes={"batch": 9}, error="no", models=())))
    assert found.columns[:3] == ("batch", "target", "model")
    assert [row[:3] for row in found.rows()[:2]] == [("1", "cpu", "m"), ("1", "openvino", "m")]
    assert {len(row) for row in found.rows()} == {len(found.columns)}
    assert "m cpu" in found.as_svg() and "m openvino" in found.as_svg()


def test_a_table_that_is_there_stays_until_there_is_another(tmp_path: Path, asked: list[Any]) -> None:
    table, new = tmp_path / "t.csv", tmp_path / "new.csv"
    table.write_text("before", encoding="utf-8")
    model = str(encoder(tmp_path))
    for path in (table, new):
        done = run(model, "--grid", "width=1", "--csv", str(path))
        assert isinstance(done.exception, OptimError) and done.exception.reference == "unknown-dimension"
    assert table.read_text(encoding="utf-8") == "before" and not new.exists() and not asked


def test_lines_without_points_say_so() -> None:
    assert "nothing could be timed" in line_plot({"m": []}, "t", "batch", "ms")
