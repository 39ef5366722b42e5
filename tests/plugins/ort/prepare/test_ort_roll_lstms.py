"""``ort.clean``: LSTMs that an exporter wrote out step by step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ort_models import apply, operators, parsed, proto, relative_l2

from optim import Model
from optim_plugins.ort.prepare.clean import Clean

INPUTS, UNITS, STEPS = 2, 3, 4
CELL = """
    {to}_f = Sigmoid ({to}_1)
    {to}_i = Sigmoid ({to}_0)
    {to}_g = Tanh ({to}_2)
    {to}_o = Sigmoid ({to}_3)
    {to}_kept = Mul ({to}_f, {cell})
    {to}_new = Mul ({to}_i, {to}_g)
    {to}_c = Add ({to}_kept, {to}_new)
    {to}_t = Tanh ({to}_c)
    {to} = Mul ({to}_o, {to}_t)
"""
TORCH = """
    {to}_zh = Gemm <transB = 1> ({state}, r, b)
    {to}_zx = Gemm <transB = 1> ({given}, w, a)
    {to}_z = Add ({to}_zh, {to}_zx)
    {to}_0, {to}_1, {to}_2, {to}_3 = Split <axis = 1> ({to}_z, sizes)
"""
KERAS = """
    {to}_zx = MatMul ({given}, w)
    {to}_zh = MatMul ({state}, r)
    {to}_zz = Add ({to}_zx, {to}_zh)
    {to}_z = Add (a, {to}_zz)
    {to}_1, {to}_0, {to}_2, {to}_3 = Split <axis = -1> ({to}_z, sizes)
"""
BY_NUMBER = "{to}_x = Gather <axis = {axis}> (x, n{number})"
JOINED = "y = Concat <axis = 0> (s0_u, s1_u, s2_u, s3_u)"


def _weight(name: str, sizes: tuple[int, ...], seed: int) -> str:
    numbers = np.random.default_rng(seed).normal(0, 0.7, sizes).astype(np.float32).reshape(-1)
    return f"float{list(sizes)} {name} = {{{', '.join(f'{number:.6f}' for number in numbers)}}}"


def _written(
    folder: Path,
    products: str = TORCH,
    *,
    order: tuple[int, ...] = (0, 1, 2, 3),
    axis: int = 0,
    end: str = JOINED,
    cell: str = CELL,
    last_input: str = "",
    opset: int = 17,
    outputs: str = "float[p, q, s] y",
) -> Model:
    """STEPS steps on a batch of unknown size; ``end`` may read each state as s<number>, or with an axis of 1 as _u."""
    columns = products is KERAS
    weights = [
        _weight("w", (INPUTS, 4 * UNITS) if columns else (4 * UNITS, INPUTS), 0),
        _weight("r", (UNITS, 4 * UNITS) if columns else (4 * UNITS, UNITS), 1),
        *(_weight(name, (4 * UNITS,), 2) for name in "ab"),
        _weight("narrow", (UNITS, INPUTS), 3),
        f"int64[4] sizes = {{{UNITS}, {UNITS}, {UNITS}, {UNITS}}}",
        "int64[1] front = {0}",
        *(f"int64 n{number} = {{{number}}}" for number in range(STEPS)),
    ]
    nodes, state, before = "", "h", "c"
    for step, number in enumerate(order):
        to = f"s{step}"
        given = (
            last_input if last_input and step == len(order) - 1 else BY_NUMBER.format(to=to, axis=axis, number=number)
        )
        nodes += given + products.format(to=to, state=state, given=f"{to}_x") + cell.format(to=to, cell=before)
        nodes += f"{to}_u = Unsqueeze ({to}, front)"
        state, before = to, f"{to}_c"
    shape = f"{STEPS}, n" if axis == 0 else f"n, {STEPS}"
    inputs = f"float[{shape}, {INPUTS}] x, float[n, {UNITS}] h, float[n, {UNITS}] c"
    head = f'<opset_import: ["": {opset}], ir_version: 8> g ({inputs}) => ({outputs}) <{", ".join(weights)}>'
    return parsed(folder, f"{head} {{ {nodes} {end} }}")


def _feeds(axis: int, batch: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(batch)
    sizes = {"x": (STEPS, batch, INPUTS) if axis == 0 else (batch, STEPS, INPUTS)}
    sizes |= {"h": (batch, UNITS), "c": (batch, UNITS)}
    return {name: random.normal(0, 1, size).astype(np.float32) for name, size in sizes.items()}


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"products": KERAS},
        {"order": (3, 2, 1, 0)},
        {"axis": 1},
        {"end": "y = Identity (s3_u)"},
        {"end": "y = Concat <axis = 0> (s3_u, s1_u)"},
        {"end": "last = Unsqueeze (s3_c, front) y = Concat <axis = 0> (s0_u, s1_u, s2_u, s3_u, last)"},
        {"last_input": "s3_x = Gather <axis = 0> (x, n0)"},
        {"last_input": "one = Gather <axis = 0> (x, n1) s3_x = Neg (one)"},
    ],
    ids=[
        "torch",
        "keras",
        "backwards",
        "batch first",
        "the last",
        "some",
        "the cell",
        "a row twice",
        "no parts of one",
    ],
)
def test_steps_become_one_operator(shape: dict[str, object], tmp_path: Path) -> None:
    model = _written(tmp_path, **shape)  # type: ignore[arg-type]
    result = apply(Clean, model, tmp_path)
    assert result.counts["steps of LSTMs"] == STEPS
    left = Counter(operators(result.model))
    assert left["LSTM"] == 1
    assert not left.keys() & {"Gemm", "MatMul", "Sigmoid", "Tanh", "Split"}
    for batch in (1, 3):
        assert relative_l2(model, result.model, _feeds(int(str(shape.get("axis", 0))), batch)) < 1e-6
    assert not apply(Clean, result.model, tmp_path).changed


@pytest.mark.parametrize(
    "shape",
    [
        {"last_input": "s3_x = MatMul (s2, narrow)"},
        {"end": "y = Unsqueeze (s1_c, front)"},
        {"cell": CELL.replace("Tanh ({to}_c)", "Sigmoid ({to}_c)")},
        {"cell": CELL.replace("{to}_o = Sigmoid ({to}_3)", "{to}_o = Sigmoid ({to}_1)")},
        {"products": TORCH.replace("<transB = 1> ({state}", "<transB = 1, alpha = 0.5> ({state}")},
        {"products": "{to}_b = ReduceSum <keepdims = 0> (h)" + TORCH.replace("w, a)", "w, {to}_b)")},
        {"opset": 13},
    ],
    ids=["reads itself", "a cell inside", "not squashed", "a gate twice", "scaled", "bias of a run", "old operators"],
)
def test_what_is_no_lstm_stays(shape: dict[str, object], tmp_path: Path) -> None:
    result = apply(Clean, _written(tmp_path, **shape), tmp_path)  # type: ignore[arg-type]
    assert "steps of LSTMs" not in result.counts
    assert "LSTM" not in operators(result.model)


def test_a_layer_above_reads_the_layer_below(tmp_path: Path) -> None:
    nodes, above = "", ("h", "c")
    for number in range(STEPS):
        below = f"s{number}"
        to = f"t{number}"
        nodes += TORCH.replace(", w, a", ", r, a").format(to=to, state=above[0], given=below) + CELL.format(
            to=to, cell=above[1]
        )
        nodes += f"{to}_u = Unsqueeze ({to}, front)"
        above = (to, f"{to}_c")
    model = _written(tmp_path, end=nodes + "y = Concat <axis = 0> (t0_u, t1_u, t2_u, t3_u)")
    result = apply(Clean, model, tmp_path)
    assert result.counts["steps of LSTMs"] == 2 * STEPS
    assert operators(result.model).count("LSTM") == 2
    assert "Gather" not in operators(result.model)
    assert relative_l2(model, result.model, _feeds(0, 2)) < 1e-6


def test_a_decoder_that_begins_where_its_encoder_ends_is_an_operator_too(tmp_path: Path) -> None:
    nodes, before = "", ("s3", "s3_c")
    for number in range(STEPS):
        to = f"d{number}"
        nodes += TORCH.replace(", r, b", ", r2, b").format(to=to, state=before[0], given=f"s{number}_x")
        nodes += CELL.format(to=to, cell=before[1]) + f"{to}_u = Unsqueeze ({to}, front)"
        before = (to, f"{to}_c")
    nodes = "two = Constant <value_float = 2.0> () r2 = Mul (r, two)" + nodes
    model = _written(tmp_path, end=nodes + "y = Concat <axis = 0> (d0_u, d1_u, d2_u, d3_u)")
    result = apply(Clean, model, tmp_path)
    assert result.counts["steps of LSTMs"] == 2 * STEPS
    left = Counter(operators(result.model))
    assert left["LSTM"] == 2
    assert not left.keys() & {"Gemm", "Sigmoid", "Tanh", "Split"}
    assert relative_l2(model, result.model, _feeds(0, 2)) < 1e-6
    assert not apply(Clean, result.model, tmp_path).changed


def test_two_outputs_may_be_the_same_states(tmp_path: Path) -> None:
    again = JOINED.replace("y =", "z =")
    model = _written(tmp_path, end=f"{JOINED} {again}", outputs="float[p, q, s] y, float[p, q, s] z")
    result = apply(Clean, model, tmp_path)
    assert result.counts["steps of LSTMs"] == STEPS
    assert [value.name for value in proto(result.model).graph.output] == ["y", "z"]
    assert relative_l2(model, result.model, _feeds(0, 2)) < 1e-6
