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
    """Prepares a model for experiments: reads the model and its samples, and runs it on them.

    Args:
        model: an ``.onnx`` file, a run folder, or a source, which optim exports.
        data: input samples, as in ``optim.run``. By default the samples of a run folder if it has some, else
            synthesized ones.
        target: where models run.
        seed: random seed for synthesized samples and for passes.
        beside: further models to look at. optim also uses the samples of their run folders.
        say: function that gets progress, a line at a time.

    Returns:
        The lab. It has a place in the cache until you close it or the program ends. A ``with`` block closes it.

    Raises:
        OptimError: the model, the samples or the target cannot be used.

    Examples:
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
