"""``optim.deliver``: the result of a run in another layout."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.api.given import Data, named_data

if TYPE_CHECKING:
    from optim._engine.reports.parts.laid_out import LayoutReport


def deliver(
    run_folder: str | PathLike[str],
    layout: str,
    output: str | PathLike[str],
    *,
    files: str | PathLike[str] | None = None,
    opened_by: str | PathLike[str] | None = None,
    data: Data | None = None,
    say: Callable[[str], None] | None = None,
) -> LayoutReport:
    """Writes the result of a run in the layout of another program, opens it with that program, and compares.

    Args:
        run_folder: folder of a run that delivered a model.
        layout: name of the layout, with its options after a colon: ``"triton:instances=2"``.
        output: a new folder.
        files: folder with config, tokenizer and similar files, e.g. the source of the model.
        opened_by: Python that has the program; by default this one.
        data: input samples, as in ``optim.run``. By default the samples of the run if it has some, else synthesized
            ones.
        say: function that gets progress, a line at a time.

    Returns:
        The result. Its ``status`` is ``opened``, or ``not-opened`` if the program is not installed.

    Raises:
        OptimError: the run, the layout or the folder cannot be used, or the program computes something else. optim then
            writes nothing.

    Examples:
        >>> optim.deliver("out", "optimum", "encoder", files="MiniLM").text
        'by optimum-onnx 0.1.0, sentence-transformers 5.2.0'
    """
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.delivering import LayoutRequest, find_deliverer
    from optim._engine.sources.address import quiet

    registry = load_registry()
    asked = LayoutRequest((layout,), Path(files) if files else None, Path(opened_by) if opened_by else None)
    deliverer = find_deliverer(registry)
    with named_data(data, 0) as feeds:
        return deliverer.deliver(registry, asked, Path(run_folder), Path(output), say or quiet, feeds)
