"""What ``--data`` names: not there, not feeds, feeds of another model, functions that do anything."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from case import Case, hold, rows
from test_malformed_models import ESCAPES, small
from world import World

GOOD = np.zeros((2, 4), np.float32)
DATA = ("--data", "{work}/feeds.npz")
RUN = Case("").command


def model(world: World) -> None:
    world.model.write_bytes(small().SerializeToString())


def arrays(**named: object) -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        np.savez(world.work / "feeds.npz", **{name: np.asarray(value) for name, value in named.items()})

    return make


def file(data: bytes, name: str = "feeds.npz") -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        path = world.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return make


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, data in members.items():
            made.writestr(name.replace("__", "."), data)
    return stream.getvalue()


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def npy_header(shape: str, kind: str = "<f4") -> str:
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"


def cut(share: float) -> Callable[[World], None]:
    def make(world: World) -> None:
        arrays(x=np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32))(world)
        path = world.work / "feeds.npz"
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])

    return make


def script(text: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        (world.work / "feeding.py").write_text(text)

    return make


def function(body: str, first: str = "") -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        (world.work / "feeding.py").write_text(f"import numpy, os, sys\n{first}\ndef samples():\n    {body}\n")

    return make


def bomb(world: World) -> None:
    """A few kilobytes that claim two gigabytes."""
    model(world)
    packed = zipfile.ZipFile(world.work / "feeds.npz", "w", zipfile.ZIP_DEFLATED)
    with packed as made, made.open("x.npy", "w") as stream:
        stream.write(header(npy_header("(500, 1048576)")))
        for _ in range(50):
            stream.write(bytes(1 << 20))


def patched_entry(size: int) -> Callable[[World], None]:
    """An archive whose entries say another size than they unpack to."""

    def make(world: World) -> None:
        model(world)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("x.npy", npy(np.zeros((1 << 16, 4), np.float32)))
        content, true = stream.getvalue(), (1 << 20) + 128
        assert content.count(true.to_bytes(4, "little")) == 2
        world.work.joinpath("feeds.npz").write_bytes(
            content.replace(true.to_bytes(4, "little"), size.to_bytes(4, "little"))
        )

    return make


def terabytes(world: World) -> None:
    """One entry that says it unpacks to 256 TB, in the fields for large files."""
    model(world)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        info = zipfile.ZipInfo("x.npy")
        with made.open(info, "w", force_zip64=True) as entry:
            entry.write(header(npy_header("(17592186044416, 4)")))
        info.file_size = 1 << 48
    (world.work / "feeds.npz").write_bytes(stream.getvalue())


def packed_by(method: int) -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        with zipfile.ZipFile(world.work / "feeds.npz", "w", method) as made:
            made.writestr("x.npy", npy(GOOD))

    return make


def no_files(world: World) -> None:
    model(world)
    (world.work / "feeds.npz").mkdir()


def a_link(target: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        (world.work / "feeds.npz").symlink_to(target)

    return make


def a_link_in_a_folder(target: str) -> Callable[[World], None]:
    def make(world: World) -> None:
        no_files(world)
        (world.work / "feeds.npz" / "000.npz").symlink_to(target)

    return make


def unreadable(world: World) -> None:
    arrays(x=GOOD)(world)
    (world.work / "feeds.npz").chmod(0)
    if os.access(world.work / "feeds.npz", os.R_OK):
        pytest.skip("this user may read everything")


def many_samples(bad: int) -> Callable[[World], None]:
    def make(world: World) -> None:
        model(world)
        folder = world.work / "feeds.npz"
        folder.mkdir()
        for number in range(6):
            np.savez(folder / f"{number}.npz", x=GOOD if number != bad else GOOD[:, :3])

    return make


FILES: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "nothing there": (model, ("feeds-missing",)),
    "an empty file": (file(b""), ("feeds-unreadable",)),
    "text": (file(b"hello"), ("feeds-unreadable",)),
    "an empty archive": (file(archive()), ("feeds-empty", "feeds-missing-input")),
    "an archive of text": (file(archive(x=b"hello")), ("feeds-unreadable", "feeds-pickled", "feeds-dtype")),
    "an array that is text": (file(archive(x__npy=b"hello")), ("feeds-unreadable", "feeds-pickled")),
    "an array of nothing": (file(archive(x__npy=b"")), ("feeds-unreadable", "feeds-pickled")),
    "a header that is code": (file(archive(x__npy=header("__import__('os').abort()\n"))), ("feeds-unreadable",)),
    "a header of brackets": (file(archive(x__npy=header("(" * 9000 + "\n"))), ("feeds-unreadable",)),
    "a shape of exabytes": (
        file(archive(x__npy=header(npy_header("(1152921504606846976,)")))),
        ("feeds-unreadable", "feeds-shape"),
    ),
    "a negative shape": (
        file(archive(x__npy=header(npy_header("(-2, 4)")) + bytes(32))),
        ("feeds-unreadable", "feeds-shape"),
    ),
    "a type that is none": (file(archive(x__npy=header(npy_header("(2, 4)", "evil")))), ("feeds-unreadable",)),
    "fewer bytes than its shape": (bomb, ("feeds-unreadable", "feeds-shape")),
    "an entry that says less than it holds": (patched_entry(200), ("feeds-unreadable",)),
    "an entry that says more than it holds": (patched_entry(1 << 30), ("feeds-unreadable", "feeds-shape")),
    "an entry of terabytes": (terabytes, ("feeds-too-large",)),
    "an archive of LZMA": (packed_by(zipfile.ZIP_LZMA), ("feeds-unreadable",)),
    "a name that is a path": (file(archive(**{"../../x__npy": npy(GOOD)})), ("feeds-unknown-input",)),
    "a name that is an escape": (file(archive(**{ESCAPES: npy(GOOD)})), ("feeds-unknown-input", "feeds-unreadable")),
    "pickled objects": (arrays(x=np.array([{}, []], dtype=object)), ("feeds-pickled",)),
    "no samples in a folder": (no_files, ("feeds-empty",)),
    "a link to nothing": (a_link("gone.npz"), ("feeds-missing",)),
    "a link to itself": (a_link("feeds.npz"), ("feeds-missing",)),
    "a link to nothing in a folder": (a_link_in_a_folder("gone.npz"), ("feeds-missing", "feeds-unreadable")),
    "a link to its folder": (a_link_in_a_folder("."), ("feeds-missing", "feeds-unreadable")),
    "a link to a device": (a_link("/dev/null"), ("feeds-missing", "feeds-unreadable")),
    "a file that nobody may read": (unreadable, ("feeds-unreadable",)),
    "cut to a third": (cut(0.3), ("feeds-unreadable",)),
    "cut near its end": (cut(0.95), ("feeds-unreadable",)),
    "another input": (arrays(X=GOOD), ("feeds-unknown-input",)),
    "an input too many": (arrays(x=GOOD, z=GOOD), ("feeds-unknown-input",)),
    "labels alone": (arrays(label=GOOD), ("feeds-missing-input",)),
    "another rank": (arrays(x=GOOD[0]), ("feeds-shape",)),
    "another size": (arrays(x=GOOD[:, :3]), ("feeds-shape",)),
    "no elements": (arrays(x=GOOD[:0]), ("feeds-shape",)),
    "text in an array": (arrays(x=[["a"] * 4] * 2), ("feeds-dtype",)),
    "complex numbers": (arrays(x=GOOD.astype(complex)), ("feeds-dtype",)),
    "times": (arrays(x=GOOD.astype("timedelta64[s]")), ("feeds-dtype",)),
    "records": (arrays(x=np.zeros((2, 4), "i4,f4")), ("feeds-dtype",)),
    "NaN": (arrays(x=GOOD * np.nan), ("feeds-not-finite",)),
    "infinity": (arrays(x=GOOD + np.inf), ("feeds-not-finite",)),
    "numbers too large for the type": (arrays(x=np.full((2, 4), 1e300)), ("feeds-not-finite", "feeds-dtype")),
    "a bad first sample of many": (many_samples(0), ("feeds-shape",)),
    "a bad last sample of many": (many_samples(5), ("feeds-shape",)),
}

FUNCTIONS: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "no module": (model, ("feeds-missing",)),
    "no function": (script("x = 1"), ("feeds-missing",)),
    "no code": (function("return ((("), ("feeds-missing", "feeds-function-failed")),
    "a module that raises": (function("pass", "raise RuntimeError('no')"), ("feeds-missing", "feeds-function-failed")),
    "a module that exits": (function("pass", "sys.exit(0)"), ("feeds-missing", "feeds-function-failed")),
    "it raises": (function("raise ValueError('no')"), ("feeds-function-failed",)),
    "it raises an escape": (function(f"raise ValueError({ESCAPES!r})"), ("feeds-function-failed",)),
    "it exits": (function("sys.exit(3)"), ("feeds-function-failed", "prepare-failed")),
    "it recurses": (function("return samples()"), ("feeds-function-failed",)),
    "it returns nothing": (function("return None"), ("feeds-function-failed",)),
    "it returns a number": (function("return 7"), ("feeds-function-failed",)),
    "it returns no samples": (function("return []"), ("feeds-empty",)),
    "it yields numbers": (function("yield 7"), ("feeds-function-failed",)),
    "it yields odd names": (
        function("yield {7: numpy.zeros((2, 4), 'f')}"),
        ("feeds-function-failed", "feeds-unknown-input"),
    ),
    "it yields lists": (
        function("yield {'x': [[1, 2], [3]]}"),
        ("feeds-function-failed", "feeds-dtype", "feeds-shape"),
    ),
    "it yields None": (
        function("yield {'x': None}"),
        ("feeds-function-failed", "feeds-dtype", "feeds-shape", "feeds-pickled"),
    ),
    "it raises on the second": (
        function("yield {'x': numpy.zeros((2, 4), 'f')}; raise ValueError('no')"),
        ("feeds-function-failed",),
    ),
    "it takes arguments": (
        lambda world: (model(world), (world.work / "feeding.py").write_text("def samples(a, b): pass")),
        ("feeds-function-failed",),
    ),
}

DIED: dict[str, str] = {
    "it aborts": "os.abort()",
    "it exits at once": "os._exit(0)",
    "it kills its group": "os.killpg(0, 9)",
    "it closes everything": "os.closerange(0, 100)",
}

VERIFY = ("verify", "{model}", "{model}")
CALL = ("--data", "feeding:samples")
TABLE = [
    *(Case(f"verify: {name}", make, (*VERIFY, *DATA), reference=refs) for name, (make, refs) in FILES.items()),
    *(
        Case(f"verify: function: {name}", make, (*VERIFY, *CALL), reference=refs)
        for name, (make, refs) in FUNCTIONS.items()
    ),
    *(Case(f"run: {name}", make, (*RUN, *DATA), reference=refs) for name, (make, refs) in list(FILES.items())[:12]),
    *(
        Case(
            f"run: function: {name}",
            function(body),
            (*RUN, *CALL),
            reference=("prepare-failed", "feeds-function-failed"),
            real=True,
        )
        for name, body in DIED.items()
    ),
    Case("bench: a bad sample", many_samples(2), ("bench", "{model}", *DATA), reference=("feeds-shape",)),
]


@rows(TABLE)
def test_feeds(case, world):
    hold(case, world)


def test_the_working_folder_is_not_searched_for_libraries(world):
    """Negative control beside the functions: only what is named is found there."""
    model(world)
    marker = world.root / "executed"
    for name in ("numpy", "onnx", "onnxruntime", "json"):
        (world.work / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
    assert world.run(["verify", str(world.model), str(world.model), "--json"]).status == 0
    assert not Path(marker).exists()
