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
    """Lay the result of a run out as another program opens it, have that open it, and compare.

    Args:
        run_folder: of a run that delivered a model.
        layout: its name, and its options behind a colon: ``"triton:instances=2"``.
        output: a new folder.
        files: folder with config, tokenizer and the like, e.g. the one that the model was exported from.
        opened_by: the Python that has the program; by default this one.
        data: as :func:`optim.run` takes it; by default the feeds of the run, else made up.
        say: told what is going on, a line at a time.

    Returns:
        What came of it; ``status`` is ``opened`` or, where the program is not installed, ``not-opened``.

    Raises:
        OptimError: the run, the layout or the folder cannot be used, or the program computes something else. Nothing
            is written then.

    Example:
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
