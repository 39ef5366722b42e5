"""Small models, one for each task: random weights but for the digits, which are trained."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *_LETTERS,
    *(f"##{letter}" for letter in _LETTERS),
    *".,:!?'-",
    "small",
    "cat",
    "sleep",
    "on",
    "the",
    "warm",
    "stone",
    "wall",
    "who",
    "bridge",
    "vote",
    "million",
    "un",
    "##believ",
    "##ably",
    "\u4e2d",
)


def save(folder: Path, nodes, inputs, outputs, weights=(), opset=18, name="model.onnx") -> Path:
    graph = helper.make_graph(
        nodes,
        "task",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [numpy_helper.from_array(array, weight) for weight, array in dict(weights).items()],
    )
    for place, node in enumerate(nodes):
        node.name = node.name or f"{node.op_type}_{place}"
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])
    onnx.checker.check_model(model)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / name)
    return folder / name


def image_input(height=32, width=40, channels=3, name="pixel_values"):
    return (name, TensorProto.FLOAT, ["batch", channels, height, width])


def classifier(folder: Path, *, classes=7, channels=3, opset=18, output="logits", size=(32, 40)) -> Path:
    """Pooled pixels through one matrix."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("AveragePool", ["pixel_values"], ["pooled"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], [output]),
    ]
    count = channels * (size[0] // 8) * (size[1] // 8)
    weights = {"w": random.standard_normal((count, classes)).astype(np.float32)}
    shape = image_input(*size, channels)
    return save(folder, nodes, [shape], [(output, TensorProto.FLOAT, ["batch", classes])], weights, opset)


def classifier_of_channels_last(folder: Path) -> Path:
    """Takes [batch, height, width, channels], as exporters of TensorFlow write it."""
    nodes = [
        helper.make_node("Flatten", ["pixel_values"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["logits"]),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((8 * 8 * 3, 7)).astype(np.float32)}
    shape = image_input(8, 3, channels=8)
    return save(folder, nodes, [shape], [("logits", TensorProto.FLOAT, ["batch", 7])], weights, 18)


@cache
def _digits():
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    digits = load_digits()
    model = LogisticRegression(max_iter=200, C=0.05).fit(digits.data[:1200] / 16, digits.target[:1200])
    return digits, model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)


def digits(folder: Path, *, opset=18, wide=False) -> Path:
    """A classifier of scikit-learn's digits, trained here: [batch, 1, 8, 8] in 0..1.

    Wide: the same scores by way of 128 numbers, whose product is large enough to be quantized.
    """
    _, coefficients, intercept = _digits()
    if wide:
        return _wide_digits(folder, coefficients, intercept)
    nodes = [
        helper.make_node("Flatten", ["pixel_values"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["logits"]),
    ]
    outputs = [("logits", TensorProto.FLOAT, ["batch", 10])]
    return save(folder, nodes, [image_input(8, 8, 1)], outputs, {"w": coefficients, "b": intercept}, opset)


def _wide_digits(folder: Path, coefficients, intercept) -> Path:
    signs = np.eye(64, dtype=np.float32)
    nodes = [
        helper.make_node("Flatten", ["pixel_values"], ["flat"]),
        helper.make_node("MatMul", ["flat", "signs"], ["both"]),
        helper.make_node("Relu", ["both"], ["positive"]),
        helper.make_node("MatMul", ["positive", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["logits"]),
    ]
    weights = {
        "signs": np.concatenate([signs, -signs], 1),
        "w": np.concatenate([coefficients, -coefficients]),
        "b": intercept,
    }
    return save(folder, nodes, [image_input(8, 8, 1)], [("logits", TensorProto.FLOAT, ["batch", 10])], weights)


def digit_image(number: int, *, edge=64) -> tuple[np.ndarray, int]:
    """A digit that the classifier has not seen, drawn large: RGB pixels, and which digit it is."""
    from PIL import Image

    known, _, _ = _digits()
    grey = Image.fromarray(np.rint(known.images[1200 + number] * 255 / 16).astype(np.uint8))
    large = grey.resize((edge, edge), Image.Resampling.NEAREST)
    return np.asarray(large.convert("RGB")), int(known.target[1200 + number])


def detector(folder: Path, *, classes=3, columns=False, boxes=60) -> Path:
    """Boxes around fixed places whose size and scores depend on the picture."""
    random = np.random.default_rng(1)
    width = 4 + classes + (0 if columns else 1)
    spread = random.uniform(0.2, 1.0, (boxes, width)).astype(np.float32)
    places = np.zeros((boxes, width), np.float32)
    places[:, :2] = random.uniform(8, 56, (boxes, 2))
    places[:, 2:4] = 10
    spread[:, :4] *= 6
    nodes = [
        helper.make_node("AveragePool", ["images"], ["pooled"], kernel_shape=[64, 64]),
        helper.make_node("ReduceMean", ["pooled", "axes"], ["level"], keepdims=1),
        helper.make_node("Reshape", ["level", "one"], ["factor"]),
        helper.make_node("Mul", ["spread", "factor"], ["moved"]),
        helper.make_node("Add", ["moved", "places"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "first"], ["batched"]),
        helper.make_node("Transpose", ["batched"], ["output0"], perm=[0, 2, 1] if columns else [0, 1, 2]),
    ]
    weights = {
        "spread": spread,
        "places": places,
        "axes": np.array([1]),
        "one": np.array([1, 1]),
        "first": np.array([0]),
    }
    shape = [1, width, boxes] if columns else [1, boxes, width]
    return save(
        folder, nodes, [("images", TensorProto.FLOAT, [1, 3, 64, 64])], [("output0", TensorProto.FLOAT, shape)], weights
    )


def segmenter(folder: Path, *, classes=4) -> Path:
    """Smoothed colours as scores, at a quarter of the size."""
    random = np.random.default_rng(2)
    kernel = random.standard_normal((classes, 3, 4, 4)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["pixel_values", "w"], ["logits"], strides=[4, 4])]
    outputs = [("logits", TensorProto.FLOAT, ["batch", classes, 16, 20])]
    return save(folder, nodes, [image_input(64, 80)], outputs, {"w": kernel})


def enlarger(folder: Path, *, channels=1) -> Path:
    """Twice as large, a little brighter at the edges."""
    nodes = [
        helper.make_node("Resize", ["input", "", "scales"], ["large"], mode="linear"),
        helper.make_node("Mul", ["large", "gain"], ["output"]),
    ]
    weights = {"scales": np.array([1, 1, 2, 2], np.float32), "gain": np.array(0.95, np.float32)}
    return save(
        folder,
        nodes,
        [("input", TensorProto.FLOAT, [1, channels, 32, 40])],
        [("output", TensorProto.FLOAT, [1, channels, 64, 80])],
        weights,
    )


def encoder(folder: Path, *, outputs=1, columns=16, kind="hidden") -> Path:
    """Embeddings of tokens and types, masked: hidden states, classes, or where an answer begins and ends."""
    random = np.random.default_rng(3)
    size = 16
    weights = {
        "words": random.standard_normal((len(WORDS), size)).astype(np.float32),
        "types": random.standard_normal((2, size)).astype(np.float32),
        "w": random.standard_normal((size, columns)).astype(np.float32),
        "last": np.array([-1]),
        "tokens": np.array([1]),
        "split": np.array([1, 1]),
    }
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["of_words"]),
        helper.make_node("Gather", ["types", "token_type_ids"], ["of_types"]),
        helper.make_node("Add", ["of_words", "of_types"], ["summed"]),
        helper.make_node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["kept", "last"], ["mask"]),
        helper.make_node("Mul", ["summed", "mask"], ["masked"]),
        helper.make_node("MatMul", ["masked", "w"], ["last_hidden_state" if kind == "hidden" else "mixed"]),
    ]
    made = [("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", columns])]
    if kind == "classes":
        nodes.append(helper.make_node("ReduceMean", ["mixed", "tokens"], ["logits"], keepdims=0))
        made = [("logits", TensorProto.FLOAT, ["batch", columns])]
    if kind == "answer":
        nodes += [
            helper.make_node("Split", ["mixed", "split"], ["s", "e"], axis=-1),
            helper.make_node("Squeeze", ["s", "last"], ["start_logits"]),
            helper.make_node("Squeeze", ["e", "last"], ["end_logits"]),
        ]
        made = [(name, TensorProto.FLOAT, ["batch", "tokens"]) for name in ("start_logits", "end_logits")]
    names = ("input_ids", "attention_mask", "token_type_ids")
    rows = [(name, TensorProto.INT64, ["batch", "tokens"]) for name in names]
    return save(folder, nodes, rows, made, weights)


def vocabulary(folder: Path) -> Path:
    """vocab.txt of the encoder's words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder / "vocab.txt"


def listener(folder: Path, *, tokens=9) -> Path:
    """Scores of tokens for frames of 320 samples."""
    random = np.random.default_rng(4)
    kernel = random.standard_normal((tokens, 1, 320)).astype(np.float32)
    nodes = [
        helper.make_node("Unsqueeze", ["input_values", "first"], ["channel"]),
        helper.make_node("Conv", ["channel", "w"], ["heard"], strides=[320]),
        helper.make_node("Transpose", ["heard"], ["logits"], perm=[0, 2, 1]),
    ]
    outputs = [("logits", TensorProto.FLOAT, [1, "frames", tokens])]
    weights = {"w": kernel, "first": np.array([1])}
    return save(folder, nodes, [("input_values", TensorProto.FLOAT, [1, "count"])], outputs, weights)


def whisper_like(folder: Path) -> Path:
    """States of mel features, mixed over filters."""
    weights = {"w": np.random.default_rng(5).standard_normal((12, 80)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["w", "input_features"], ["states"])]
    return save(
        folder,
        nodes,
        [("input_features", TensorProto.FLOAT, [1, 80, 200])],
        [("states", TensorProto.FLOAT, [1, 12, 200])],
        weights,
    )


def settings(folder: Path, **files) -> Path:
    """A folder with JSON files, as Hugging Face has them: ``settings(folder, preprocessor_config={...})``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder
