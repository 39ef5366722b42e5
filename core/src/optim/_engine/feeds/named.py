"""Input samples: ``--data`` takes one of these forms.

| form | contents |
|---|---|
| ``samples.npz`` | one sample: arrays with the names of the inputs |
| ``samples.npz`` | many samples: arrays named ``<i>/<input>``, with a number for ``<i>`` |
| ``folder/`` | ``.npz`` files with one sample or many each |
| ``package.module:function`` | a function, with or without ``seed``, that returns samples: arrays by input name |

This script writes eight samples for a model with the input ``x``:

    import numpy as np

    samples = [np.random.rand(1, 3, 224, 224).astype("float32") for _ in range(8)]
    np.savez("samples.npz", **{f"{i}/x": x for i, x in enumerate(samples)})

- Give real data. Without ``--data``, optim synthesizes inputs from the graph, and the report says how.
- Give eight samples or more. With four or more, optim holds out every fourth one from calibration.
- Give the shapes that matter. optim times the model on the first three different shapes.
- Labels for a task metric are arrays whose names begin with ``label``.
- An input with a default in the graph may be left out.
"""

from __future__ import annotations

from pathlib import Path

from optim.errors import OptimError
from optim.user_code import FUNCTION_NAME

GIVEN_FEEDS = "given-in-python.npz"
"""What feeds are called that were arrays of a program: there is no such file once it has ended."""


def is_function(spec: str) -> bool:
    """Returns whether feeds are named as ``package.module:function``."""
    return bool(FUNCTION_NAME.fullmatch(spec)) and not spec.endswith(".npz")


def require_feeds(spec: str) -> None:
    """Refuse what names neither a file, a folder nor a function."""
    path = Path(spec)
    if path.exists() or is_function(spec):
        return
    if path.name == GIVEN_FEEDS:
        raise OptimError(
            "feeds-missing",
            "the input samples of this lock are not stored",
            "a program passed them as arrays",
            "pass them again: optim.run(model, recipe='recipe.lock.toml', data=arrays), or --data with a file",
        )
    here = sorted(file.name for file in path.parent.glob("*.npz")) if path.parent.is_dir() else []
    raise OptimError(
        "feeds-missing",
        f"there is no file or folder {spec}",
        f"{path.parent} holds {', '.join(here[:8])}" if here else f"there is no .npz file in {path.parent}",
        "give an .npz file, a folder of .npz files, or package.module:function",
    )
