"""Weights beside the model: gone, cut off, elsewhere, of odd names, and more than they should be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from case import Case, hold, rows
from ingest_models import WEIGHT, external
from onnx import TensorProto
from world import World

INSPECT = ("inspect", "{model}")
VERIFY = ("verify", "{model}", "{model}")
DATA = WEIGHT.tobytes()


def at(
    location: str, *, data: bytes | None = DATA, name: str = "", offset: object = 0, length: object = WEIGHT.nbytes
) -> Callable[[World], None]:
    """A model that says its weight lies at ``location``, and a file with that name or another."""

    def make(world: World) -> None:
        path = world.work / (name or location)
        if data is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        world.model.write_bytes(external(location, offset=offset, length=length).SerializeToString())

    return make


def linked(location: str, target: Callable[[World], Path]) -> Callable[[World], None]:
    def make(world: World) -> None:
        at(location, data=None)(world)
        place = target(world)
        (world.work / location).symlink_to(place)

    return make


def outside(world: World) -> Path:
    path = world.home / "secret.bin"
    path.write_bytes(DATA)
    return path


def beside(world: World) -> Path:
    path = world.work / "real.bin"
    path.write_bytes(DATA)
    return path


def odd_entries(*entries: tuple[str, str]) -> Callable[[World], None]:
    def make(world: World) -> None:
        tensor = TensorProto(name="w", dims=WEIGHT.shape, data_type=1, data_location=TensorProto.EXTERNAL)
        for key, value in entries:
            tensor.external_data.add(key=key, value=value)
        (world.work / "w.bin").write_bytes(DATA)
        model = external("w.bin")
        model.graph.initializer[0].CopyFrom(tensor)
        world.model.write_bytes(model.SerializeToString())

    return make


def both_inside_and_outside(world: World) -> None:
    at("w.bin")(world)
    model = onnx.load(world.model, load_external_data=False)
    model.graph.initializer[0].raw_data = DATA
    world.model.write_bytes(model.SerializeToString())


def not_a_number(world: World) -> None:
    data = np.full_like(WEIGHT, np.nan)
    at("w.bin", data=data.tobytes())(world)


def a_folder(world: World) -> None:
    at("w.bin", data=None)(world)
    (world.work / "w.bin").mkdir()


def a_pipe(world: World) -> None:
    at("w.bin", data=None)(world)
    os.mkfifo(world.work / "w.bin")


def unreadable(world: World) -> None:
    at("w.bin")(world)
    (world.work / "w.bin").chmod(0)
    if os.access(world.work / "w.bin", os.R_OK):
        pytest.skip("this user may read everything")


FAULTS: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "gone": (at("gone.bin", data=None), ("external-data-missing",)),
    "of another case": (at("W.BIN", name="w.bin"), ("external-data-missing",)),
    "empty": (at("w.bin", data=b""), ("external-data-too-short",)),
    "one byte short": (at("w.bin", data=DATA[:-1]), ("external-data-too-short",)),
    "behind its end": (at("w.bin", offset=10_000_000), ("external-data-too-short",)),
    "at a negative place": (at("w.bin", offset=-4), ("invalid-graph",)),
    "at no number": (at("w.bin", offset="x"), ("invalid-graph",)),
    "at a huge place": (at("w.bin", offset=2**63), ("external-data-too-short", "invalid-graph")),
    "at a number of a thousand digits": (at("w.bin", offset="9" * 5000), ("external-data-too-short", "invalid-graph")),
    "of negative length": (at("w.bin", length=-1), ("invalid-graph",)),
    "of another length": (at("w.bin", length=8), ("invalid-graph",)),
    "of a length that is no number": (at("w.bin", length="1e3"), ("invalid-graph",)),
    "absolute": (at("/etc/passwd", data=None), ("external-data-outside",)),
    "above": (at("../home/secret.bin", name="secret.bin"), ("external-data-outside",)),
    "above in the middle": (at("a/../../x.bin", data=None), ("external-data-outside",)),
    "above in the way of Windows": (at("..\\x.bin", data=None), ("external-data-outside",)),
    "on a drive": (at("C:\\x.bin", data=None), ("external-data-outside",)),
    "a device": (at("/dev/zero", data=None), ("external-data-outside",)),
    "of no name": (at("", data=None), ("invalid-graph",)),
    "a dot": (at(".", data=None), ("external-data-missing", "external-data-outside")),
    "a name with a zero byte": (at("w\0.bin", data=None), ("external-data-missing", "invalid-graph")),
    "a name of a thousand letters": (at("n" * 1000, data=None), ("external-data-missing", "invalid-graph")),
    "a name that is an escape": (at("\x1b]0;x\x07", data=None), ("external-data-missing",)),
    "a folder": (a_folder, ("external-data-missing",)),
    "a pipe that nobody writes": (a_pipe, ("external-data-missing",)),
    "a link to nothing": (linked("w.bin", lambda world: world.work / "nowhere"), ("external-data-missing",)),
    "a link to itself": (linked("w.bin", lambda world: world.work / "w.bin"), ("external-data-missing",)),
    "a link to another folder": (linked("w.bin", outside), ("external-data-outside",)),
    "a link to a device": (linked("w.bin", lambda world: Path("/dev/zero")), ("external-data-missing",)),
    "no entries": (odd_entries(), ("invalid-graph",)),
    "no location": (odd_entries(("offset", "0")), ("invalid-graph",)),
    "the model itself, too short": (at("model.onnx", data=None), ("external-data-too-short",)),
    "unreadable": (unreadable, ("external-data-missing", "model-unreadable", "external-data-unreadable")),
    "full of NaN": (not_a_number, ("only-nan", "nothing-compared")),
}

RIGHT: dict[str, Callable[[World], None]] = {
    "beside it": at("w.bin"),
    "in a folder below": at("weights/deep/w.bin"),
    "a link beside it": linked("w.bin", beside),
    "of a name with spaces": at("my weights.bin"),
    "of a name in another alphabet": at("вес-重み.bin"),
    "of a name with a new line": at("a\nb.bin"),
    "of a hidden name": at(".w"),
    "longer than needed": at("w.bin", data=DATA * 3),
    "without a length": at("w.bin", length=None),
    "both inside and beside": both_inside_and_outside,
    "with entries that nobody knows": odd_entries(("location", "w.bin"), ("checksum", "0"), ("flavour", "vanilla")),
    "with an entry said twice": odd_entries(("location", "gone.bin"), ("location", "w.bin")),
}

TABLE = [
    *(Case(f"run: data {name}", make, reference=refs) for name, (make, refs) in FAULTS.items()),
    *(Case(f"inspect: data {name}", make, INSPECT, (0, 3), refs) for name, (make, refs) in FAULTS.items()),
    *(Case(f"verify: data {name}", make, VERIFY, (0, 3), ("invalid-graph",)) for name, make in RIGHT.items()),
]


@rows(TABLE)
def test_external_data(case, world):
    hold(case, world)
