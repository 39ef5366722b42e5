"""A layout opened by its consumer, in a program of its own and in whatever Python has the consumer."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optim.arrays import Feeds, Outputs
from optim.errors import ExitStatus, OptimError
from optim.layout import open_program
from optim.layout.contract import Laid, Layout

_OPEN_S = 300.0
"""For imports, opening and all samples: sentence-transformers took 40 s to import from a cold disk."""

_TAIL = 300


@dataclass(frozen=True, slots=True)
class Opened:
    """Result of opening a layout by its consumer.

    Attributes:
        missing: reason why there is no consumer; empty if there is one.
        consumer: name and version of the consumer.
        outputs: outputs of each sample.
    """

    missing: str
    consumer: str = ""
    outputs: tuple[Outputs, ...] = ()


def open_laid(layout: Layout, laid: Laid, folder: Path, samples: Sequence[Feeds], python: Path) -> Opened:
    """Lets the consumer open a layout and run samples.

    Args:
        layout: the layout.
        laid: the files that it wrote.
        folder: folder of the files.
        samples: samples to run, in order.
        python: Python that has the consumer.

    Raises:
        OptimError[layout-not-opened]: the consumer is there and refuses the layout, crashes or hangs.
    """
    with tempfile.TemporaryDirectory(prefix="optim-open-") as scratch:
        place = Path(scratch)
        files = [(str(place / f"{number}.npz"), list(feeds)) for number, feeds in enumerate(samples)]
        for (path, _), feeds in zip(files, samples, strict=True):
            np.savez(path, *feeds.values())  # in order: an input may be called as an argument of savez
        request = {
            "opener": str(layout.opener),
            "folder": str(folder.absolute()),
            "told": dict(laid.told),
            "samples": files,
            "answer": scratch,
        }
        (place / "request.json").write_text(json.dumps(request), encoding="utf-8")
        _run([str(python), open_program.__file__, str(place / "request.json")], layout, python)
        answer = place / "answer.json"
        if not answer.is_file():
            raise _not_opened(layout, f"{python} ended without an answer: is it a Python?")
        said = json.loads(answer.read_text(encoding="utf-8"))
        if said["missing"]:
            return Opened(said["missing"])
        outputs = tuple(
            {name: np.load(place / f"{number}.{at}.npy") for at, name in enumerate(names)}
            for number, names in enumerate(said["outputs"])
        )
        if len(outputs) != len(samples):
            raise _not_opened(layout, f"of {len(samples)} samples it gave outputs for {len(outputs)}")
        return Opened("", said["consumer"], outputs)


def _run(command: list[str], layout: Layout, python: Path) -> None:
    """Run it to its end; what it started ends with it."""
    environment = dict(os.environ)
    if python != Path(sys.executable):  # what is on our path is not for another Python
        environment = {key: text for key, text in environment.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**environment, "HF_HUB_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1"},
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        raise _not_opened(layout, f"{python} cannot be started: {error.strerror or error}") from error
    try:
        printed, _ = process.communicate(timeout=_OPEN_S)
    except subprocess.TimeoutExpired as error:
        raise _not_opened(layout, f"it was not done within {_OPEN_S:.0f} s") from error
    finally:
        if os.name == "posix":  # a consumer may have started programs, such as Node: the whole group goes
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
        if process.stdout is not None:
            process.stdout.close()
        process.wait()
    if process.returncode:
        lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
        how = f"exit status {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise _not_opened(layout, lines[-1][:_TAIL] if lines else how)


def _not_opened(layout: Layout, cause: str) -> OptimError:
    return OptimError(
        "layout-not-opened",
        f"the program of layout {layout.name} does not open the written folder",
        cause,
        f"the run folder itself is right; for another version of the program: --python PYTHON ({layout.consumer})",
        status=ExitStatus.NOT_HELD,
    )
