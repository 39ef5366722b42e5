"""``optim adapters extract``: the pass alone, on a model as it is, and what it made compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from optim import ExitStatus, Model, OptimError
from optim.arrays import Feeds, Outputs
from optim.cli_kit import context_for, made_up_feeds, read_model, require_target, write_model
from optim.drift import compare_outputs, objection
from optim.onnx import open_session
from optim_plugins.adapted import ONNX_ADAPTER, read_adapter
from optim_plugins.adapters.extract.extract import Extract
from optim_plugins.adapters.extract.extract_options import ExtractOptions


@dataclass(frozen=True, slots=True)
class Written:
    """What was written.

    Attributes:
        model: file of the graph.
        adapter: file of the adapter.
        layers: that take adapters.
        drift: with the adapter, to the model as it was; the worst of all samples and outputs.
        base_drift: without, to the model whose adapters are left out.
    """

    model: Path
    adapter: Path
    layers: int
    drift: float
    base_drift: float

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}


def write_extracted(path: Path, output: Path, options: ExtractOptions | None = None) -> Written:
    """Extract, deliver and compare.

    Args:
        path: of the model.
        output: folder; absent or empty.
        options: of the pass; by default its own.

    Raises:
        OptimError[folder-not-empty]: something is in the folder.
        OptimError[nothing-to-extract]: the graph has no adapters.
        OptimError[adapter-not-extractable]: not in a form that is known.
        OptimError[extraction-differs]: what was written computes something else.
    """
    _require_room(output)
    target = require_target("cpu")
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        model = read_model(path, store)
        transformation = Extract()
        if not (applicable := transformation.applicable(model, target)):
            raise OptimError.usage(
                "nothing-to-extract",
                f"{path} has no adapter to extract",
                applicable.reason,
                "optim run PEFT_FOLDER --with adapters.extract -o DIR",
            )
        with context_for(target, store, None) as context:
            result = transformation.apply(model, options or ExtractOptions(), context)
        assert result.interface is not None
        name = next(iter(result.model.attachments))
        base = result.interface.variants[0].model
        assert base is not None
        drift, base_drift = _compare(model, base, result.model, name, Path(folder))
        write_model(result.model, output, target)
        return Written(output / "model.onnx", output / name, result.counts["layers"], drift, base_drift)


def _require_room(output: Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise OptimError.usage(
            "folder-not-empty", f"cannot write to {output}", "something is there already", "name a new folder after -o"
        )


def _compare(model: Model, base: Model, made: Model, adapter: str, folder: Path) -> tuple[float, float]:
    """How far the new model is from the old one with the adapter, and from the base without.

    As it is in the store: one that is opened with its adapter still has it as inputs with defaults.

    Raises:
        OptimError[extraction-differs]: rounding does not explain it.
    """
    weights = read_adapter(made.attachments[adapter], ONNX_ADAPTER).arrays
    has_own = any(one.required or one.supplied_by for one in made.adapters)
    none = {name: np.zeros_like(array) for name, array in weights.items()} if has_own else {}
    before, plain, after = (open_session(one.path, one.session) for one in (model, base, made))
    samples = made_up_feeds(model, folder / "feeds", run=lambda feeds: _outputs(before, feeds))
    with_it = [(_outputs(before, feeds), _outputs(after, {**feeds, **weights})) for feeds in samples]
    without = [(_outputs(plain, feeds), _outputs(after, {**feeds, **none})) for feeds in samples]
    return _drift(with_it, "with the adapter"), _drift(without, "without the adapter")


def _outputs(session: Any, feeds: Feeds) -> Outputs:
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _drift(samples: Sequence[tuple[Outputs, Outputs]], case: str) -> float:
    compared = compare_outputs(samples)
    if why := objection(compared):
        raise OptimError(
            "extraction-differs",
            "the model computes something else without its adapter inside",
            f"{case}: {why}",
            "merge the adapter instead: leave adapters.extract out",
            status=ExitStatus.NOT_HELD,
        )
    return max((one.relative_error for one in compared), default=0.0)
