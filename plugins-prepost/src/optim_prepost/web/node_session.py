"""onnxruntime-web under Node: a process of its own that holds one model."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from optim import OptimError, Session
from optim.arrays import Array, Feeds, Outputs
from optim.onnx import external_files
from optim_prepost import PACKAGE
from optim_prepost.web.packages import ONNXRUNTIME_WEB, node, require

_RUNNER = Path(__file__).with_name("runner.mjs")
_LENGTH_BYTES = 4
_HAS_DEV_FD = os.name == "posix"
"""Whether an inherited pipe has a name that Node can open."""


class NodeProcess:
    """The process, and its conversation: a header in JSON and bytes, each way."""

    def __init__(self) -> None:
        folder = require(ONNXRUNTIME_WEB)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        command = [node(), str(_RUNNER), str(folder)]
        self._process, self._answers = (_with_a_pipe if _HAS_DEV_FD else _over_stdout)(command, self._stderr)

    def ask(self, what: str, payload: Sequence[bytes] = (), **header: Any) -> tuple[dict[str, Any], bytes]:
        """One request and its answer.

        Raises:
            OptimError[ort-web-failed]: onnxruntime-web refused, with what it says; or its process is gone.
        """
        text = json.dumps({"do": what, "bytes": sum(map(len, payload)), **header}).encode()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            for piece in (len(text).to_bytes(_LENGTH_BYTES, "little"), text, *payload):
                self._process.stdin.write(piece)
            self._process.stdin.flush()
        length = self._answers.read(_LENGTH_BYTES)
        if len(length) < _LENGTH_BYTES:
            raise _failed("its process ended", self._tail())
        answer: dict[str, Any] = json.loads(self._answers.read(int.from_bytes(length, "little")))
        if "error" in answer:
            raise _failed(
                "it refused the model" if what in ("open", "accepts") else "it could not run the model",
                " ".join(answer["error"].split())[:600],
            )
        described = answer.get("outputs", ()) if what == "run" else ()
        return answer, self._answers.read(sum(one["size"] for one in described))

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._answers, self._stderr):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()

    def _tail(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-600:].decode(errors="replace").strip()


def _with_a_pipe(command: list[str], stderr: IO[bytes]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """The process, and what it answers over a pipe that nothing else is printed to."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*command, f"/dev/fd/{writing}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=(writing,),
    )
    os.close(writing)
    return process, os.fdopen(reading, "rb")


def _over_stdout(command: list[str], stderr: IO[bytes]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """The same over its stdout, where a program is handed no other pipe; its console goes to stderr."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    return process, process.stdout


class NodeSession(Session):
    """A model that is open in a Node process; runs on WASM, with one thread.

    Args:
        model: path of the graph.
        options: of the session, as onnxruntime-web calls them.
        weights: folder of the files that the graph refers to; None: its own.
    """

    def __init__(self, model: Path, options: Mapping[str, Any], *, weights: Path | None = None) -> None:
        folder = weights or model.parent
        self._process = NodeProcess()
        try:
            used, _ = self._process.ask("used")
            self._before_bytes = int(used["peak_bytes"])
            external = [[name, str(folder / name)] for name in external_files(model)]
            opened, _ = self._process.ask("open", model=str(model), external=external, options=dict(options))
        except BaseException:
            self._process.close()
            raise
        self._inputs = set(opened["inputs"])
        self._fed: int | None = None

    def run(self, feeds: Feeds) -> Outputs:
        """One run; feeds that the graph does not have are left out."""
        described, payload = [], []
        for name, array in feeds.items():
            if name in self._inputs:
                one, content = _described(name, np.asarray(array))
                described.append(one)
                payload.append(content)
        answer, data = self._process.ask("run", payload, feeds=described)
        self._fed = id(feeds)
        return _outputs(answer["outputs"], data)

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Measured in the process that runs the model: what it takes to get feeds there is not counted."""
        if self._fed != id(feeds):
            self.run(feeds)
        answer, _ = self._process.ask("time", count=count)
        return [float(seconds) for seconds in answer["seconds"]]

    def processor_s(self) -> float:
        """Of the process that runs the model."""
        answer, _ = self._process.ask("used")
        return float(answer["processor_s"])

    def peak_memory_bytes(self) -> int | None:
        """Of the process that runs the model, less what it had before."""
        answer, _ = self._process.ask("used")
        peak: int = answer["peak_bytes"]
        return max(0, peak - self._before_bytes)

    @property
    def executed_on(self) -> Mapping[str, float]:
        """All nodes run on WASM: no other provider is asked for."""
        return {"wasm": 1.0}

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _described(name: str, array: Array) -> tuple[dict[str, Any], bytes]:
    if array.dtype.kind in "SUO":
        words = [str(word) for word in array.ravel()]
        return {"name": name, "type": "string", "dims": list(array.shape), "size": 0, "strings": words}, b""
    content = np.ascontiguousarray(array).tobytes()
    return {"name": name, "type": array.dtype.name, "dims": list(array.shape), "size": len(content)}, content


def _outputs(described: Sequence[Mapping[str, Any]], data: bytes) -> Outputs:
    found: dict[str, Array] = {}
    place = 0
    for one in described:
        shape = [int(size) for size in one["dims"]]
        if one["type"] == "string":
            found[one["name"]] = np.array(one["strings"], dtype=object).reshape(shape)
        else:
            piece = np.frombuffer(data, np.dtype(one["type"]), int(np.prod(shape)), place)
            found[one["name"]] = piece.reshape(shape)
            place += int(one["size"])
    return found


def _failed(what: str, cause: str) -> OptimError:
    name, version = ONNXRUNTIME_WEB
    return OptimError(
        "ort-web-failed",
        f"{name} {version}: {what}",
        cause,
        "optim targets shows where else the model can run",
        PACKAGE,
    )
