"""``optim.lab``: a model prepared on its samples, to try passes on, to compare and to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from os import PathLike, fspath
from typing import TYPE_CHECKING

from optim._engine.api.given import Data, named_data
from optim._engine.api.request import conditions_for
from optim._engine.sources.address import fetched, quiet

if TYPE_CHECKING:
    from optim._engine.runs.lab.lab import Lab


def lab(
    model: str | PathLike[str],
    *,
    data: Data | None = None,
    target: str = "cpu",
    seed: int = 0,
    beside: Sequence[str | PathLike[str]] = (),
    say: Callable[[str], None] | None = None,
) -> Lab:
    """Prepare a model: read it, read or make up its samples, and run it on them.

    Args:
        model: an ``.onnx`` file, a run folder, or a source, which is exported.
        data: as :func:`optim.run` takes it; by default the samples of a run folder, if it knows them, else made up.
        target: where models run.
        seed: of synthesized samples, and of passes.
        beside: further models that will be looked at; samples of their run folders serve too.
        say: told what is going on, a line at a time.

    Returns:
        The lab. It holds a place in the cache until it is closed, or until the program ends; ``with`` closes it.

    Raises:
        OptimError: the model, the samples or the target cannot be used.

    Example:
        >>> lab = optim.lab("model.onnx", data={"x": x})
        >>> smaller = lab.try_pass("ort.quantize-dynamic", per_channel=True)
        >>> smaller.drift, lab.time(lab.original, smaller).ratio
        (0.0083, 0.62)
    """
    said = say or quiet
    models = [fetched(fspath(one), said) for one in (model, *beside)]
    with ExitStack() as stack:
        feeds = stack.enter_context(named_data(data, seed))
        conditions = conditions_for(models, said, data=feeds, target=target, seed=seed)
        from optim._engine.runs.lab.lab import Lab

        return Lab.of(models, conditions)
