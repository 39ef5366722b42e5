"""``ort.clean``: branches that no run gets through, and what may not be concluded from a branch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from ort_models import apply, operators, parsed, proto, relative_l2

from optim import Model
from optim_plugins.ort.prepare.clean import Clean

SHAPES = ((2, 4, 1), (3, 4, 1))

SQUEEZE = """
    shape = Shape (x)
    last = Gather (shape, two)
    alone = Equal (last, one)
    q = If (alone) <
        then_branch = t () => (float[n, 4] thin) { thin = Squeeze (x, two) },
        else_branch = e () => (float[n, 4, m] wide) { wide = Identity (x) }
    >
"""
"""What a traced ``x.squeeze(2)`` becomes."""

LSTM = "y = LSTM <hidden_size = 1> (v, w, r)"
WEIGHTS = "float[1, 4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 1, 0, 1, 0, 1, 0}, float[1, 4, 1] r = {1, 2, 3, 4}"


def _model(folder: Path, nodes: str, output: str = "float[a, b, n, c] y", inputs: str = "float[n, 4, m] x") -> Model:
    numbers = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 rank = {2}"
    head = f'<opset_import: ["": 17], ir_version: 8> g ({inputs}) => ({output}) <{numbers}, {WEIGHTS}>'
    return parsed(folder, f"{head} {{ {nodes} }}")


def _all_operators(model: Model) -> list[str]:
    found, graphs = [], [proto(model).graph]
    for graph in graphs:  # grows
        found += [node.op_type for node in graph.node]
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return found


def _same(model: Model, result: Model) -> None:
    for shape in SHAPES:
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        assert relative_l2(model, result, {"x": x}) == 0


def test_the_branch_that_a_later_operator_refuses_goes_and_what_hangs_on_it(tmp_path: Path) -> None:
    nodes = f"""{SQUEEZE}
        axes = Shape (q)
        number = Size (axes)
        flat = Equal (number, rank)
        deep = Not (flat)
        u = If (deep) <
            then_branch = t2 () => (float[i, j, k] more) {{ more = Unsqueeze (q, zero) }},
            else_branch = e2 () => (float[i, j] same) {{ same = Identity (q) }}
        >
        v = Unsqueeze (u, zero)
        {LSTM}"""
    model = _model(tmp_path, nodes)
    result = apply(Clean, model, tmp_path)
    assert operators(result.model) == ["Squeeze", "Unsqueeze", "LSTM"]
    _same(model, result.model)
    for one in (model, result.model):
        with pytest.raises(Exception, match=r"LSTM|Squeeze"):
            ort.InferenceSession(one.path).run(None, {"x": np.zeros((2, 4, 3), np.float32)})


def test_a_branch_inside_a_branch_is_looked_at_too(tmp_path: Path) -> None:
    inner = f"{SQUEEZE} v = Unsqueeze (q, zero) {LSTM}".replace(" y =", " inner =").replace("y = LSTM", "inner = LSTM")
    nodes = f"""z = If (c) <
        then_branch = outer () => (float[a, b, n, d] inner) {{ {inner} }},
        else_branch = other () => (float[a, b, n, d] plain) {{ plain = Unsqueeze (x, zero) }}
    >"""
    model = _model(tmp_path, nodes, output="float[a, b, n, d] z", inputs="float[n, 4, m] x, bool c")
    result = apply(Clean, model, tmp_path)
    assert _all_operators(result.model).count("If") == 1
    x = np.random.default_rng(0).normal(size=(2, 4, 1)).astype(np.float32)
    for taken in (True, False):
        assert relative_l2(model, result.model, {"x": x, "c": np.array(taken)}) == 0


def test_a_branch_with_a_loop_that_reads_what_lies_outside(tmp_path: Path) -> None:
    nodes = f"""
        shape = Shape (x)
        last = Gather (shape, two)
        alone = Equal (last, one)
        three = Identity (rank)
        yes = Equal (zero, zero)
        go = Squeeze (yes)
        v = If (alone) <
            then_branch = t () => (float[i, j, k] looped) {{
                thin = Squeeze (x, two)
                start = Unsqueeze (thin, zero)
                looped = Loop (three, go, start) <body = b (int64 step, bool on, float[i, j, k] h)
                    => (bool on2, float[i, j, k] h2) {{ on2 = Identity (on) h1 = Mul (h, h) h2 = Add (h1, w0) }}>
            }},
            else_branch = e () => (float[i, j, k, l] wide) {{ wide = Unsqueeze (x, zero) }}
        >
        {LSTM}"""
    nodes = "w0 = Gather <axis = 1> (w, zero)" + nodes
    model = _model(tmp_path, nodes)
    result = apply(Clean, model, tmp_path)
    assert "Loop" in operators(result.model)
    assert "If" not in operators(result.model)
    _same(model, result.model)


REFUSED_ELSEWHERE = f"""{SQUEEZE}
    z = If (c) <
        then_branch = t3 () => (float[a, b, n, d] y) {{ v = Unsqueeze (q, zero) {LSTM} }},
        else_branch = e3 () => (float[i, j, k, l] p) {{ p0 = Unsqueeze (q, zero) p = Unsqueeze (p0, zero) }}
    >"""


def test_a_refusal_that_only_another_branch_meets_says_nothing(tmp_path: Path) -> None:
    inputs = "float[n, 4, m] x, bool c"
    model = _model(tmp_path, REFUSED_ELSEWHERE, output="float[i, j, k, l] z", inputs=inputs)
    result = apply(Clean, model, tmp_path)
    assert _all_operators(result.model).count("If") == 2
    for shape, taken in (((2, 4, 1), True), ((2, 4, 1), False)):
        assert relative_l2(model, result.model, {"x": np.ones(shape, np.float32), "c": np.array(taken)}) == 0


@pytest.mark.parametrize(
    "rest",
    [
        "v = Unsqueeze (q, zero) unread = LSTM <hidden_size = 1> (v, w, r) p = Neg (q) y = Reshape (p, all)",
        "p = Neg (q) y = Reshape (p, all)",
    ],
)
def test_where_nothing_that_is_read_refuses_a_branch_both_stay(rest: str, tmp_path: Path) -> None:
    model = _model(tmp_path, f"all = Neg (one) {SQUEEZE} {rest}", output="float[k] y")
    result = apply(Clean, model, tmp_path)
    assert "If" in operators(result.model)
    _same(model, result.model)
    (y,) = ort.InferenceSession(result.model.path).run(None, {"x": np.ones((2, 4, 3), np.float32)})
    assert y.tolist() == [-1.0] * 24


def test_names_of_the_branch_may_be_those_of_what_follows(tmp_path: Path) -> None:
    nodes = f"""{SQUEEZE}
        v = Unsqueeze (q, zero)
        {LSTM.replace("y =", "h =")}
        z = If (c) <
            then_branch = t3 () => (float[a, b, n, d] wide) {{ wide = Neg (h) }},
            else_branch = e3 () => (float[a, b, n, d] thin) {{ thin = Abs (h) }}
        >"""
    model = _model(tmp_path, nodes, output="float[a, b, n, d] z", inputs="float[n, 4, m] x, bool c")
    result = apply(Clean, model, tmp_path)
    assert operators(result.model).count("If") == 1
    for taken in (True, False):
        assert relative_l2(model, result.model, {"x": np.ones((2, 4, 1), np.float32), "c": np.array(taken)}) == 0


def test_a_condition_that_a_run_may_replace_is_no_constant(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17], ir_version: 8> g (float[2] x, bool yes) => (float[2] y) <bool yes = {1}> {
            unused = Neg (x)
            y = If (yes) <then_branch = t () => (float[2] a) { a = Relu (x) },
                          else_branch = e () => (float[2] b) { b = Neg (x) }>
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert operators(result.model) == ["If"]
    x = np.array([-1.0, 2.0], np.float32)
    for feeds in ({"x": x}, {"x": x, "yes": np.array(False)}):
        assert relative_l2(model, result.model, feeds) == 0


def test_what_holds_in_a_branch_is_not_said_of_the_value_outside(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17], ir_version: 8>
        g (float[6] x, int64[k] s) => (float[6] y) <int64[1] all = {-1}, bool yes = {1}, int64 two = {2}> {
            a0 = Reshape (x, s)
            a = If (yes) <then_branch = t () => (float[] p) { p = Relu (a0) },
                          else_branch = e () => (float[] q) { q = Neg (a0) }>
            axes = Shape (a)
            rank = Size (axes)
            flat = Equal (rank, two)
            b = If (flat) <then_branch = t2 () => (float[2, 3] b1) <float[2, 3] b0> { b0 = Identity (a) b1 = Abs (b0) },
                           else_branch = e2 () => (float[] b2) { b2 = Neg (a) }>
            c = If (yes) <then_branch = t3 () => (float[] p3) { p3 = Tanh (b) },
                          else_branch = e3 () => (float[] q3) { q3 = Neg (b) }>
            y = Reshape (c, all)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (1, 2, 3), (6,)):
        assert relative_l2(model, result.model, {"x": x, "s": np.array(shape)}) == 0
