"""Models that ship inside wheels, in their own library: what it feeds them, and what it answers with another model.

    python benchmarks/models/wheels.py nudenet record FOLDER        # model.onnx, calib.npz, unseen.npz
    python benchmarks/models/wheels.py nudenet answer [RESULT]      # JSON; RESULT is an .onnx file or a run folder

Runs in an environment that has the libraries (benchmarks/wheels.py makes it), and knows nothing of optim.
``onnxruntime.InferenceSession`` is replaced by one that notes what it is fed, and opens RESULT where the library opens
its own model. Which models there are, and what they are given: wheel_cases.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from wheel_cases import CASES, Case

NUMBERS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float)": np.float32}
"""onnxruntime takes lists for them too; of the others an array's own type counts."""


def main() -> None:
    """Record what a model is fed, or print what its library answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=sorted(CASES))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("folder", type=Path)
    commands.add_parser("answer").add_argument("result", type=Path, nargs="?")
    chosen = parser.parse_args()
    case = CASES[chosen.case]
    if chosen.command == "record":
        record(case, chosen.folder)
        return
    with contextlib.redirect_stdout(sys.stderr), replaced(case.path, chosen.result):
        found = case.answers(True)
    print(json.dumps(found))


def record(case: Case, folder: Path) -> None:
    """Write the model, and what it is fed for calibration and for judging."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(case.path, folder / "model.onnx")
    with replaced(case.path, None) as fed:
        for name, judged in (("calib", False), ("unseen", True)):
            fed.clear()
            case.answers(judged)
            most = case.most
            chosen = fed if len(fed) <= most else [fed[i * (len(fed) - 1) // (most - 1)] for i in range(most)]
            arrays = {f"{number}/{key}": array for number, one in enumerate(chosen) for key, array in one.items()}
            np.savez(folder / f"{name}.npz", **arrays)


@contextlib.contextmanager
def replaced(path: Path, result: Path | None) -> Iterator[list[dict[str, Any]]]:
    """Sessions of the file note what they are fed; they are of a result where there is one."""
    fed: list[dict[str, Any]] = []
    plain = onnxruntime.InferenceSession

    class Session(plain):  # type: ignore[misc, valid-type]
        """A session that may be of another model than it was asked for."""

        def __init__(self, model: Any, *arguments: Any, **named: Any) -> None:
            self.watched = isinstance(model, (str, Path)) and Path(model).name == path.name
            if self.watched and result is not None and not result.is_dir():
                model = str(result)
            super().__init__(model, *arguments, **named)
            self.other = opened_folder(result) if self.watched and result is not None and result.is_dir() else None

        def run(self, names: Sequence[str] | None, feeds: dict[str, Any], *rest: Any) -> Any:
            """Returns the outputs."""
            if self.watched:
                types = {one.name: NUMBERS.get(one.type) for one in self.get_inputs()}
                fed.append({name: np.array(array, types[name]) for name, array in feeds.items()})
            if self.other is None:
                return super().run(names, feeds, *rest)
            with unwatched(plain):
                return self.other.run(names, feeds)

    onnxruntime.InferenceSession = Session
    try:
        yield fed
    finally:
        onnxruntime.InferenceSession = plain


@contextlib.contextmanager
def unwatched(plain: Any) -> Iterator[None]:
    """Sessions are onnxruntime's own."""
    watching, onnxruntime.InferenceSession = onnxruntime.InferenceSession, plain
    try:
        yield
    finally:
        onnxruntime.InferenceSession = watching


def opened_folder(folder: Path) -> Any:
    """The session that the run folder's own load.py opens."""
    spec = importlib.util.spec_from_file_location("load", folder / "load.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with unwatched(onnxruntime.InferenceSession.__mro__[1]):
        return module.load()


if __name__ == "__main__":
    main()
