"""Operators of ONNX as torch computes them, each a function of its node and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

Attributes = Mapping[str, Any]
Kernel = Callable[[Attributes, list[torch.Tensor]], torch.Tensor]


def _layer_norm(attributes: Attributes, given: list[torch.Tensor]) -> torch.Tensor:
    x, scale = given[0], given[1]
    shape = x.shape[attributes.get("axis", -1) :]
    bias = given[2].reshape(shape) if len(given) > 2 else None
    return functional.layer_norm(x, shape, scale.expand(shape), bias, attributes.get("epsilon", 1e-5))


def _gemm(attributes: Attributes, given: list[torch.Tensor]) -> torch.Tensor:
    a = given[0].T if attributes.get("transA", 0) else given[0]
    b = given[1].T if attributes.get("transB", 0) else given[1]
    product = attributes.get("alpha", 1.0) * (a @ b)
    return product + attributes.get("beta", 1.0) * given[2] if len(given) > 2 else product


def _gelu(attributes: Attributes, given: list[torch.Tensor]) -> torch.Tensor:
    return functional.gelu(given[0], approximate=attributes.get("approximate", "none"))


def _conv(attributes: Attributes, given: list[torch.Tensor]) -> torch.Tensor:
    rank = given[0].dim() - 2
    pads = attributes.get("pads", [0] * 2 * rank)
    if attributes.get("auto_pad", "NOTSET") != "NOTSET" or rank > 3:
        raise NotImplementedError("padding of this kind")
    flat = [size for axis in reversed(range(rank)) for size in (pads[axis], pads[axis + rank])]
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    padded, bias = functional.pad(given[0], flat), given[2] if len(given) > 2 else None
    return convolve(padded, given[1], bias, strides, 0, dilations, attributes.get("group", 1))


def _reduce_mean(attributes: Attributes, given: list[torch.Tensor]) -> torch.Tensor:
    axes = given[1].tolist() if len(given) > 1 else attributes.get("axes", list(range(given[0].dim())))
    return given[0].mean(axes, keepdim=bool(attributes.get("keepdims", 1)))


KERNELS: Mapping[str, Kernel] = {
    "Add": lambda attributes, given: given[0] + given[1],
    "Conv": _conv,
    "Div": lambda attributes, given: given[0] / given[1],
    "Erf": lambda attributes, given: torch.erf(given[0]),
    "Exp": lambda attributes, given: torch.exp(given[0]),
    "Gelu": _gelu,
    "Gemm": _gemm,
    "LayerNormalization": _layer_norm,
    "MatMul": lambda attributes, given: given[0] @ given[1],
    "Mul": lambda attributes, given: given[0] * given[1],
    "Pow": lambda attributes, given: torch.pow(given[0], given[1]),
    "ReduceMean": _reduce_mean,
    "Relu": lambda attributes, given: functional.relu(given[0]),
    "Sigmoid": lambda attributes, given: torch.sigmoid(given[0]),
    "Softmax": lambda attributes, given: torch.softmax(given[0], attributes.get("axis", -1)),
    "Sqrt": lambda attributes, given: torch.sqrt(given[0]),
    "Sub": lambda attributes, given: given[0] - given[1],
    "Tanh": lambda attributes, given: torch.tanh(given[0]),
}
"""By operator of the standard domain; what is not here, or has an integer input, runs on onnxruntime."""
