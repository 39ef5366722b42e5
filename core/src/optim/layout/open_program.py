"""Runs in the Python of a layout's consumer, by its path, without optim: opens what was written, and runs samples.

``python open_program.py REQUEST``: REQUEST is a JSON file with ``opener``, ``folder``, ``told``, ``samples`` (``.npz``
files, each with the names of its arrays) and ``answer``, a folder. ``answer/answer.json`` says what is ``missing``, or
which ``consumer`` gave which ``outputs``: for each sample a list of names, whose arrays are ``N.M.npy``.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Open, run, and write what came out."""
    here = str(Path(__file__).parent)  # its neighbours are no modules of a consumer
    sys.path[:] = [path for path in sys.path if path != here]
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    opener = _loaded(request["opener"])
    answer = Path(request["answer"])
    said: dict[str, Any] = {"missing": opener.missing()}
    if not said["missing"]:
        import numpy as np

        samples = []
        for path, names in request["samples"]:
            with np.load(path, allow_pickle=False) as archive:
                samples.append({name: archive[f"arr_{place}"] for place, name in enumerate(names)})
        said["consumer"], outputs = opener.open_and_run(Path(request["folder"]), samples, request["told"])
        said["outputs"] = [list(one) for one in outputs]
        for number, one in enumerate(outputs):
            for place, array in enumerate(one.values()):
                values = np.asarray(array)
                if values.dtype == object:  # texts, which are saved as such
                    values = values.astype(str)
                np.save(answer / f"{number}.{place}.npy", values, allow_pickle=False)
    (answer / "answer.json").write_text(json.dumps(said), encoding="utf-8")


def _loaded(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("optim_opener", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # beside a plugin's file, for another Python
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = kept
    return module


if __name__ == "__main__":
    main()
