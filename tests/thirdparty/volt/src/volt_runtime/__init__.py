"""Volt's runtime: runs compiled programs on its device, which takes one program at a time. Knows nothing of optim."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import tempfile
from pathlib import Path

import numpy as np

VERSION = "7.2"


class DeviceBusy(Exception):  # noqa: N818 - what its users know
    """Another program is on the device."""


def _gemm(a, b, c):
    return a @ b + c


OPERATORS = {
    "Add": np.add,
    "Dropout": lambda x: x,
    "Gemm": _gemm,
    "Identity": lambda x: x,
    "MatMul": np.matmul,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
}


def pack(array):
    """An array as JSON."""
    array = np.ascontiguousarray(array)
    return {"dtype": array.dtype.name, "shape": array.shape, "data": base64.b64encode(array.tobytes()).decode()}


def unpack(packed):
    """The array of it."""
    return np.frombuffer(base64.b64decode(packed["data"]), packed["dtype"]).reshape(packed["shape"])


class Program:
    """A program on the device, from the text of a ``.volt`` file."""

    def __init__(self, text):
        self._program = json.loads(text)
        self._weights = {name: unpack(packed) for name, packed in self._program["weights"].items()}
        path = os.environ.get("VOLT_DEVICE", Path(tempfile.gettempdir(), "volt-device"))
        self._device = Path(path).open("a")  # noqa: SIM115 - open as long as the program is on the device
        try:
            fcntl.flock(self._device, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._device.close()
            raise DeviceBusy("another program is on the device") from error

    @classmethod
    def load(cls, path):
        """The program of a file."""
        return cls(Path(path).read_text(encoding="utf-8"))

    def run(self, feeds):
        """Outputs by name."""
        if self._device.closed:
            raise RuntimeError("the program is not on the device any more")
        values = {**self._weights, **{name: np.asarray(feeds[name]) for name in self._program["inputs"]}}
        for step in self._program["steps"]:
            values[step["output"]] = OPERATORS[step["operator"]](*(values[name] for name in step["inputs"]))
        return {name: np.array(values[name]) for name in self._program["outputs"]}

    def close(self):
        """Leave the device."""
        self._device.close()
