"""What a pass is given beside its model: nothing is global."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.arrays import Feeds
from optim.model import Model, SessionConfig
from optim.target import Target

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir


@dataclass
class Context:
    """Everything a pass may use.

    Attributes:
        target: where the model will run.
        scratch: an empty folder of the pass's own, removed afterwards.
        store: the folder that all graphs of a run share; write there through :meth:`save` and :meth:`adopt`.
        seed: of the run.
        feeds_given: whether the samples are the user's; False where they were made up from the graph.
        samples: gives a fresh iterator over the feeds for calibration, one sample at a time; in a run, of four and more
            one in four is held out.
        log: the pass's logger; what it says at INFO or above lands in the report, with the notes of its step.
        report_progress: called with a share in 0..1 and a few words.
        measured: what was measured inside the model before, see :meth:`known`.
        score: how good a model file is on the target, higher is better: the run's task metric, without one 1 less its
            drift from the original. For passes that try many models themselves; None where nothing can be compared.
    """

    target: Target
    scratch: Path
    store: Path
    seed: int
    samples: Callable[[], Iterator[Feeds]]
    log: logging.Logger
    report_progress: Callable[[float, str], None]
    feeds_given: bool = True
    score: Callable[[Path], float] | None = None
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)

    def known(self, kind: str) -> dict[str, Any]:
        """What was measured of values of this very model on these samples, by their name; whoever measures notes it.

        A repair applies a pass many times to one model: what the model itself is given and makes is measured once.

        Args:
            kind: of the figure, e.g. ``channel means``; a pass that measures otherwise takes another word.
        """
        return self.measured.setdefault(kind, {})

    @cached_property
    def random(self) -> np.random.Generator:
        """A generator seeded by the run."""
        import numpy as np

        return np.random.default_rng(self.seed)

    def save(
        self,
        graph: onnx_ir.Model,
        model: Model,
        *,
        session: SessionConfig | None = None,
        artefacts: Mapping[str, Path | str] | None = None,
        attachments: Mapping[str, Path | str] | None = None,
    ) -> Model:
        """Write ``graph`` into the store as the successor of ``model``.

        Weights that still lie in the store are referred to, not copied; new ones go to one new data file.
        The successor has the session settings of ``model`` unless ``session`` says otherwise.

        Args:
            graph: what becomes of it.
            model: that it was made from.
            session: other settings.
            artefacts: files that were made of this very graph, such as a compiled program, by what the backend calls
                them (:attr:`optim.Model.artefacts`). They are delivered beside the model. The next graph has none of
                them, unless its pass hands them over again.
            attachments: files of arrays for the run folder, by their names there, such as ``mine.onnx_adapter``. They
                stay with all that is made of the model.

        Raises:
            OptimError[bad-artefact]: a name that cannot be a file's, or a file that is not there.
        """
        from optim.onnx.files import save_in_store

        self._carry(artefacts or {}, attachments or {}, graph)
        return save_in_store(graph, self.store, session=model.session if session is None else session)

    def adopt(self, path: Path | str, model: Model, *, artefacts: Mapping[str, Path | str] | None = None) -> Model:
        """Bring a file that a library wrote (in ``scratch``) into the store as the successor of ``model``.

        Tensors whose bytes ``model`` already has are referred to, not copied.

        Args:
            path: of the file.
            model: that it was made from.
            artefacts: files that were made of this very graph, as of :meth:`save`.

        Raises:
            OptimError[bad-artefact]: a name that cannot be a file's, or a file that is not there.
        """
        from optim.onnx.files import adopt_into_store

        return adopt_into_store(Path(path), self.store, like=model, artefacts=artefacts)

    def _carry(
        self, artefacts: Mapping[str, Path | str], attachments: Mapping[str, Path | str], graph: onnx_ir.Model
    ) -> None:
        """Bring files into the store and name them in a graph: artefacts in place of those that it had."""
        from optim.onnx.context_files import attach, set_artefacts, store_contexts

        set_artefacts(graph, artefacts)
        attach(graph, attachments)
        if artefacts or attachments:
            store_contexts(graph, self.store, self.store)


@dataclass
class MeasuringContext(Context):
    """A context whose models are opened once and thrown away: nothing that it writes can be another model's.

    Attributes:
        made: what was saved and not yet discarded.
    """

    made: list[Model] = field(default_factory=list)

    def save(
        self,
        graph: onnx_ir.Model,
        model: Model,
        *,
        session: SessionConfig | None = None,
        artefacts: Mapping[str, Path | str] | None = None,
        attachments: Mapping[str, Path | str] | None = None,
    ) -> Model:
        """As :meth:`Context.save`, under names of its own."""
        from optim.onnx.files import save_for_measuring

        session = model.session if session is None else session
        self._carry(artefacts or {}, attachments or {}, graph)
        self.made.append(save_for_measuring(graph, self.store, session=session))
        return self.made[-1]

    def adopt(self, path: Path | str, model: Model, *, artefacts: Mapping[str, Path | str] | None = None) -> Model:
        """As :meth:`Context.adopt`, under names of its own."""
        from optim.onnx.context_files import store_contexts
        from optim.onnx.files import read_like, save_for_measuring

        graph = read_like(Path(path), model, artefacts)
        store_contexts(graph, Path(path).parent, self.store)
        self.made.append(save_for_measuring(graph, self.store, session=model.session))
        return self.made[-1]

    def discard(self) -> None:
        """Delete what was saved."""
        from optim.onnx.files import discard_measured

        while self.made:
            discard_measured(self.made.pop())
