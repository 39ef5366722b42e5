"""What optimizers do: the same sums in another order, fused or not."""

from __future__ import annotations

import numpy as np

from gate.case import ACCEPTED, FLOATS, Trial, right
from gate.sketch import Sketch

ORDER = "only the order of the sum differs"


def _x(s: Sketch, t: Trial) -> str:
    return s.feed("x", t.batch, t.length, t.width)


def reordered(s: Sketch, t: Trial, x: str, weights: np.ndarray, other: bool) -> str:
    """``x @ weights``; in the other model the second half of the sum is added up on its own, and first."""
    if not other:
        return s.linear(x, weights)
    rows, axis = len(weights), 2
    half = rows // 2
    parts = (s.linear(s.part(x, start, end, axis), weights[start:end]) for start, end in ((half, rows), (0, half)))
    return s.op("Add", *parts)


@right(ORDER, dtypes=FLOATS)
def sum_in_another_order(s: Sketch, t: Trial, other: bool) -> None:
    s.give("answer", reordered(s, t, _x(s, t), t.weights(t.width, t.classes), other))


@right("a long sum in another order")
def long_sum(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 40_000, draw=lambda rng, _: rng.random((t.batch, 40_000)))
    if other:
        x = s.reshape(s.op("ReduceSum", s.reshape(x, t.batch, 200, 200), s.ints(1), keepdims=0), t.batch, 200)
    s.give("sum", s.op("ReduceSum", x, s.ints(1)))


@right("Gemm in place of MatMul and Add", dtypes=FLOATS)
def gemm(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, t.width)
    weights, bias = t.weights(t.width, t.classes), t.rng.standard_normal(t.classes)
    s.give("answer", s.op("Gemm", x, weights, bias) if other else s.linear(x, weights, bias))


@right("a transposed weight")
def transposed_weight(s: Sketch, t: Trial, other: bool) -> None:
    x, weights = s.feed("x", t.batch, t.width), t.weights(t.width, t.classes)
    s.give("answer", s.op("Gemm", x, weights.T, transB=1) if other else s.op("Gemm", x, weights))


@right("two products are one: (x A) B = x (A B)", dtypes=FLOATS[:2])
def two_products_in_one(s: Sketch, t: Trial, other: bool) -> None:
    first, second = t.weights(t.width, t.width), t.weights(t.width, t.classes)
    x = _x(s, t)
    s.give("answer", s.linear(x, first @ second) if other else s.linear(s.linear(x, first), second))


@right("layer normalization as one operator", dtypes=FLOATS[:2])
def layer_normalization(s: Sketch, t: Trial, other: bool) -> None:
    x, scale, shift = _x(s, t), 1 + 0.2 * t.rng.standard_normal(t.width), t.rng.standard_normal(t.width)
    if other:
        s.give("hidden", s.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5))
        return
    centred = s.op("Sub", x, s.op("ReduceMean", x, s.ints(-1)))
    variance = s.op("ReduceMean", s.op("Mul", centred, centred), s.ints(-1))
    normal = s.op("Div", centred, s.op("Sqrt", s.op("Add", variance, 1e-5)))
    s.give("hidden", s.op("Add", s.op("Mul", normal, scale), shift))


@right("a variance as the mean of squares less the square of the mean")
def variance(s: Sketch, t: Trial, other: bool) -> None:
    x = _x(s, t)
    mean = s.op("ReduceMean", x, s.ints(-1))
    if other:
        squares = s.op("ReduceMean", s.op("Mul", x, x), s.ints(-1))
        s.give("variance", s.op("Sub", squares, s.op("Mul", mean, mean)))
    else:
        centred = s.op("Sub", x, mean)
        s.give("variance", s.op("ReduceMean", s.op("Mul", centred, centred), s.ints(-1)))


@right("a root mean square is divided by, or its inverse is multiplied with")
def rms_normalization(s: Sketch, t: Trial, other: bool) -> None:
    x = _x(s, t)
    root = s.op("Sqrt", s.op("Add", s.op("ReduceMean", s.op("Pow", x, 2.0), s.ints(-1)), 1e-6))
    s.give("hidden", s.op("Mul", x, s.op("Reciprocal", root)) if other else s.op("Div", x, root))


@right("softmax written out, with its maximum subtracted or another number", dtypes=FLOATS[:2], shift=["max", "2"])
def softmax(s: Sketch, t: Trial, other: bool, shift: str) -> None:
    y = s.linear(_x(s, t), t.weights(t.width, t.classes, scale=2))
    if not other:
        s.give("p", s.op("Softmax", y, axis=-1))
        return
    shifted = s.op("Sub", y, s.op("ReduceMax", y, s.ints(-1)) if shift == "max" else 2.0)
    powers = s.op("Exp", shifted)
    s.give("p", s.op("Div", powers, s.op("ReduceSum", powers, s.ints(-1))))


@right("the logarithm of a softmax as one operator")
def log_softmax(s: Sketch, t: Trial, other: bool) -> None:
    y = s.linear(_x(s, t), t.weights(t.width, t.classes, scale=2))
    s.give("log_p", s.op("LogSoftmax", y, axis=-1) if other else s.op("Log", s.op("Softmax", y, axis=-1)))


@right("Gelu as one operator")
def gelu(s: Sketch, t: Trial, other: bool) -> None:
    x = _x(s, t)
    if other:
        s.give("hidden", s.op("Gelu", x))
        return
    error = s.op("Erf", s.op("Mul", x, np.sqrt(0.5)))
    s.give("hidden", s.op("Mul", s.op("Mul", x, s.op("Add", error, 1.0)), 0.5))


@right("a sigmoid by a tangent or by a power of e", formula=["tanh", "exp"])
def sigmoid(s: Sketch, t: Trial, other: bool, formula: str) -> None:
    x = s.linear(_x(s, t), t.weights(t.width, t.classes))
    if not other:
        s.give("p", s.op("Sigmoid", x))
    elif formula == "tanh":
        s.give("p", s.op("Add", s.op("Mul", s.op("Tanh", s.op("Mul", x, 0.5)), 0.5), 0.5))
    else:
        s.give("p", s.op("Reciprocal", s.op("Add", s.op("Exp", s.op("Neg", x)), 1.0)))


@right("a normalization is folded into the convolution before it", dtypes=FLOATS[:1])
def folded_batch_normalization(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 3, 16, 16)
    kernels = t.weights(8, 3, 3, 3, scale=0.5)
    scale, shift, mean = 1 + 0.3 * t.rng.standard_normal(8), t.rng.standard_normal(8), t.rng.standard_normal(8)
    spread = t.rng.uniform(0.5, 2, 8)
    if other:
        factor = scale / np.sqrt(spread + 1e-5)
        s.give("maps", s.op("Conv", x, kernels * factor[:, None, None, None], shift - mean * factor, pads=[1] * 4))
    else:
        y = s.op("Conv", x, kernels, pads=[1] * 4)
        s.give("maps", s.op("BatchNormalization", y, scale, shift, mean, spread))


@right("a convolution of one pixel is a product")
def convolution_of_one_pixel(s: Sketch, t: Trial, other: bool) -> None:
    x, kernels = s.feed("x", t.batch, 8, 10, 10), t.weights(8, 16)
    if not other:
        s.give("maps", s.op("Conv", x, kernels.T[:, :, None, None]))
        return
    pixels = s.op("Transpose", s.reshape(x, t.batch, 8, 100), perm=[0, 2, 1])
    s.give("maps", s.reshape(s.op("Transpose", s.linear(pixels, kernels), perm=[0, 2, 1]), t.batch, 16, 10, 10))


@right("heads of attention by reshaping or by Einsum; the scale is on the query or on the scores", dtypes=FLOATS[:2])
def attention(s: Sketch, t: Trial, other: bool) -> None:
    x = _x(s, t)
    heads, size = 4, t.width // 4
    names = [s.linear(x, t.weights(t.width, t.width)) for _ in range(3)]
    query, key, value = (s.reshape(one, t.batch, t.length, heads, size) for one in names)
    scale = size**-0.5
    if other:
        scores = s.op("Einsum", s.op("Mul", query, scale), key, equation="bqhd,bkhd->bhqk")
        context = s.op("Einsum", s.op("Softmax", scores, axis=-1), value, equation="bhqk,bkhd->bqhd")
    else:
        turned = s.op("Transpose", query, perm=[0, 2, 1, 3])
        scores = s.op("Mul", s.op("MatMul", turned, s.op("Transpose", key, perm=[0, 2, 3, 1])), scale)
        mixed = s.op("MatMul", s.op("Softmax", scores, axis=-1), s.op("Transpose", value, perm=[0, 2, 1, 3]))
        context = s.op("Transpose", mixed, perm=[0, 2, 1, 3])
    s.give("context", s.reshape(context, t.batch, t.length, t.width))


@right("a running sum as a product with a triangle")
def running_sum(s: Sketch, t: Trial, other: bool) -> None:
    x = s.feed("x", t.batch, 200)
    one = (
        s.op("MatMul", x, np.triu(np.ones((200, 200)))) if other else s.op("CumSum", x, s.const(np.array(1, np.int64)))
    )
    s.give("sums", one)


@right("a mean as a sum times a constant")
def mean_as_a_sum(s: Sketch, t: Trial, other: bool) -> None:
    x = _x(s, t)
    total = s.op("Mul", s.op("ReduceSum", x, s.ints(1)), 1 / t.length) if other else s.op("ReduceMean", x, s.ints(1))
    s.give("mean", total)


@right("an activation by other operators", which=["hardswish", "leaky", "clip", "square", "softplus"])
def activation(s: Sketch, t: Trial, other: bool, which: str) -> None:
    x = s.linear(_x(s, t), t.weights(t.width, t.classes, scale=3))
    if which == "hardswish":
        gate = s.op("Clip", s.op("Add", s.op("Mul", x, 1 / 6), 0.5), 0.0, 1.0)
        y = s.op("Mul", x, gate) if other else s.op("HardSwish", x)
    elif which == "leaky":
        y = s.op("Max", x, s.op("Mul", x, 0.1)) if other else s.op("LeakyRelu", x, alpha=0.1)
    elif which == "clip":
        y = s.op("Min", s.op("Max", x, -1.0), 1.0) if other else s.op("Clip", x, -1.0, 1.0)
    elif which == "square":
        y = s.op("Mul", x, x) if other else s.op("Pow", x, 2.0)
    else:
        y = s.op("Log", s.op("Add", s.op("Exp", x), 1.0)) if other else s.op("Softplus", x)
    s.give("answer", y)


@right("computed in more precision, and rounded at the end", dtypes=("float32", "float16"))
def more_precision(s: Sketch, t: Trial, other: bool) -> None:
    x, weights = _x(s, t), t.weights(t.width, t.classes)
    more = {"float32": "float64", "float16": "float32"}[t.dtype.name]
    if other:
        y = s.op("MatMul", s.cast(x, more), s.const(weights.astype(t.dtype), more))
        s.give("answer", s.cast(y, t.dtype.name))
    else:
        s.give("answer", s.linear(x, weights))


@right("depth to space as one operator")
def depth_to_space(s: Sketch, t: Trial, other: bool) -> None:
    x = s.op("Mul", s.feed("x", t.batch, 8, 6, 6), 2.0)
    if not other:
        s.give("picture", s.op("DepthToSpace", x, blocksize=2))
        return
    split = s.op("Transpose", s.reshape(x, t.batch, 2, 2, 2, 6, 6), perm=[0, 3, 4, 1, 5, 2])
    s.give("picture", s.reshape(split, t.batch, 2, 12, 12))


@right("one-hot products in place of a table")
def embedding_by_one_hot(s: Sketch, t: Trial, other: bool) -> None:
    ids = s.feed("ids", t.batch, t.length, dtype="int64", draw=lambda rng, _: rng.integers(0, 50, (t.batch, t.length)))
    table = t.rng.standard_normal((50, t.width))
    hot = s.op("OneHot", ids, np.int64(50), np.array([0.0, 1.0])) if other else ""
    s.give("hidden", s.linear(hot, table) if other else s.op("Gather", table, ids))


@right("an LSTM as one operator, or written out step by step")
def lstm(s: Sketch, t: Trial, other: bool) -> None:
    size, steps = 8, 5
    x = s.feed("x", steps, t.batch, t.width)
    weights, again = t.weights(t.width, 4 * size), t.weights(size, 4 * size)
    bias = 0.1 * t.rng.standard_normal(4 * size)
    if not other:
        twice = np.concatenate([bias, np.zeros(4 * size)])[None]
        y = s.op("LSTM", x, weights.T[None], again.T[None], twice, hidden_size=size)
        s.give("hidden", s.op("Squeeze", y, s.ints(1)))
        return
    hidden = cell = s.const(np.zeros((t.batch, size)))
    steps_out = []
    for step in range(steps):
        now = s.op("Squeeze", s.part(x, step, step + 1, 0), s.ints(0))
        gates = s.op("Add", s.linear(now, weights, bias), s.linear(hidden, again))
        enter, leave, forget, new = (s.part(gates, size * place, size * (place + 1), 1) for place in range(4))
        kept = s.op("Mul", s.op("Sigmoid", forget), cell)
        cell = s.op("Add", kept, s.op("Mul", s.op("Sigmoid", enter), s.op("Tanh", new)))
        hidden = s.op("Mul", s.op("Sigmoid", leave), s.op("Tanh", cell))
        steps_out.append(s.op("Unsqueeze", hidden, s.ints(0)))
    s.give("hidden", s.join(*steps_out, axis=0))


@right(
    "a sum is rounded to 8 bits after it was added up in another order: a few values fall on the other step",
    accepted=ACCEPTED,
)
def order_before_a_quantizer(s: Sketch, t: Trial, other: bool) -> None:
    y = reordered(s, t, _x(s, t), t.weights(t.width, t.classes), other)
    step = s.const(np.float32(1 / 40))
    s.give("answer", s.op("DequantizeLinear", s.op("QuantizeLinear", y, step, np.int8(0)), step, np.int8(0)))
