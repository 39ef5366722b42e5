"""Gelu by tanh, written out in several ways, becomes FastGelu."""

from __future__ import annotations

from pathlib import Path

import pytest
from ort_models import apply, operators, parsed, random_weight, relative_l2

from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution
from optim_plugins.ort.fuse.fuse_tanh_gelu import fuse_tanh_gelu
from optim_plugins.ort.graph.inferred_shapes import infer_shapes

NUMBERS = (
    "float k = {0.044715}, float s = {0.7978846}, float ks = {0.0356774}, float one = {1}, float half = {0.5}, "
    "float three = {3}, float[1, 1] wide = {0.5}, float off = {0.05}"
)
POWER = "a = Pow (c, three) b = Mul (k, a) d = Add (c, b) p = Mul (s, d)"
PRODUCTS = "a = Mul (k, c) b = Mul (c, a) e = Mul (c, b) d = Add (c, e) p = Mul (s, d)"
FACTORED = "a = Mul (c, c) b = Mul (a, ks) d = Add (b, s) p = Mul (c, d)"
TAILS = ("h = Mul (half, t) y = Mul (c, h)", "h = Mul (c, half) y = Mul (h, t)", "h = Mul (t, c) y = Mul (h, half)")


def _text(polynomial: str, tail: str, source: str = "Relu (x)") -> str:
    rest = f"{polynomial} u = Tanh (p) t = Add (u, one) {tail}"
    return (
        f'<opset_import: ["": 17], ir_version: 8> g (float[2, 4, 6] x) => (float[2, 4, 6] y) <{NUMBERS}> '
        f"{{ c = {source} {rest} }}"
    )


@pytest.mark.parametrize("polynomial", [POWER, PRODUCTS, FACTORED])
@pytest.mark.parametrize("tail", TAILS)
def test_any_way_to_write_it_is_one_operator(polynomial: str, tail: str, tmp_path: Path) -> None:
    graph = parsed(tmp_path, _text(polynomial, tail)).ir()
    infer_shapes(graph)
    assert fuse_tanh_gelu(graph) == 1
    assert [node.op_type for node in graph.graph if node.outputs[0].is_graph_output()] == ["FastGelu"]
    assert graph.graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    ("polynomial", "tail"),
    [
        (POWER.replace("Mul (k, a)", "Mul (off, a)"), TAILS[0]),
        (POWER.replace("Pow (c, three)", "Pow (c, k)"), TAILS[0]),
        (PRODUCTS.replace("Add (c, e)", "Sub (c, e)"), TAILS[0]),
        (PRODUCTS.replace("Mul (c, b)", "Mul (x, b)"), TAILS[0]),
        (POWER, TAILS[0].replace("half", "one")),
        (POWER, TAILS[0].replace("Mul (c, h)", "Mul (x, h)")),
    ],
)
def test_what_computes_something_else_stays(polynomial: str, tail: str, tmp_path: Path) -> None:
    graph = parsed(tmp_path, _text(polynomial, tail)).ir()
    infer_shapes(graph)
    assert fuse_tanh_gelu(graph) == 0


def test_a_number_that_adds_an_axis_is_not_lost(tmp_path: Path) -> None:
    text = _text(POWER, TAILS[1].replace("half", "wide")).replace("float[2, 4, 6] x", "float[6] x")
    graph = parsed(tmp_path, text.replace("float[2, 4, 6] y", "float[1, 6] y")).ir()
    infer_shapes(graph)
    assert fuse_tanh_gelu(graph) == 0


def test_behind_a_convolution_it_is_written_for_cpus(tmp_path: Path) -> None:
    text = _text(PRODUCTS, TAILS[0], "Conv <kernel_shape = [1]> (x, w)").replace("> {", ", float[4, 4, 1] w> {")
    values = ", ".join(str(0.1 * number) for number in range(16))
    model = parsed(tmp_path, text.replace("float[4, 4, 1] w", f"float[4, 4, 1] w = {{{values}}}"))
    result = apply(FuseConvolution, model, tmp_path)
    assert result.counts["Gelus written"] == 1
    assert operators(result.model) == ["Conv", "FastGelu"]
    assert relative_l2(model, result.model, {"x": random_weight(2, 4, 6)}) <= 1e-6
