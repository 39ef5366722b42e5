"""The context of a pass: everything that a pass may use beside its model."""

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
    """Everything that a pass may use beside its model.

    Attributes:
        target: where the model will run.
        scratch: an empty folder for the pass. optim removes it afterwards.
        store: folder of all graphs of the run. Write there with ``save`` and ``adopt``.
        seed: random seed of the run.
        feeds_given: whether the samples are the user's. If not, optim synthesized them.
        samples: returns a new iterator over the input samples for calibration, one sample at a time. In a run with four
            or more samples, optim holds out every fourth one.
        log: logger of the pass. The report shows messages of level INFO or above, with the notes of the step.
        report_progress: reports progress, called with a share in 0..1 and a few words.
        measured: values measured inside the model so far (see ``known``).
        score: measures how good a model file is on the target; higher is better. The score is the task metric of the
            run, or without a metric 1 minus the drift from the original. It is for passes that try many models
            themselves. None: nothing can be compared.
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
        """Returns the values measured inside this model on these samples, by name. A pass adds to them.

        A repair applies a pass many times to one model, so the pass measures each value once.

        Args:
            kind: kind of the values, e.g. ``channel means``. Use another word for values that are measured in another
                way.
        """
        return self.measured.setdefault(kind, {})

    @cached_property
    def random(self) -> np.random.Generator:
        """Returns a random generator with the seed of the run."""
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
        """Writes ``graph`` into the store as the successor of ``model``.

        The new graph refers to weights that are in the store already. New weights go into one new data file. The
        successor has the session settings of ``model`` unless ``session`` gives others.

        Args:
            graph: the new graph. The call takes it over.
            model: model that the graph was made from.
            session: other session settings.
            artefacts: files made from this graph, such as a compiled program, by their name for the backend
                (``optim.Model.artefacts``). optim delivers them beside the model. The next graph has them only if its
                pass gives them again.
            attachments: files of arrays for the run folder, by name, such as ``mine.onnx_adapter``. All models made
                from this one have them too.

        Raises:
            OptimError[bad-artefact]: a name is not valid for a file, or a file is missing.
        """
        from optim.onnx.context_files import ARTEFACT, ATTACHMENT, name_files, store_contexts

        name_files(graph, ARTEFACT, artefacts or {})
        name_files(graph, ATTACHMENT, attachments or {}, beside=True)
        if artefacts or attachments:
            store_contexts(graph, self.store, self.store)
        return self._keep(graph, model.session if session is None else session)

    def adopt(self, path: Path | str, model: Model, *, artefacts: Mapping[str, Path | str] | None = None) -> Model:
        """Brings a file that a library wrote into ``scratch`` into the store, as the successor of ``model``.

        The new graph refers to tensors whose bytes ``model`` has already.

        Args:
            path: the file.
            model: model that the file was made from.
            artefacts: files made from this graph, as in ``save``.

        Raises:
            OptimError[bad-artefact]: a name is not valid for a file, or a file is missing.
        """
        from optim.onnx.context_files import store_contexts
        from optim.onnx.files import read_like

        graph = read_like(Path(path), model, artefacts)
        store_contexts(graph, Path(path).parent, self.store)
        return self._keep(graph, model.session)

    def _keep(self, graph: onnx_ir.Model, session: SessionConfig) -> Model:
        """Write a graph into the store."""
        from optim.onnx.files import save_in_store

        return save_in_store(graph, self.store, session=session)


@dataclass
class MeasuringContext(Context):
    """A context for models that are measured once and then deleted.

    Attributes:
        made: models saved and not yet deleted.
    """

    made: list[Model] = field(default_factory=list)

    def _keep(self, graph: onnx_ir.Model, session: SessionConfig) -> Model:
        """Write a graph into the store, with file names of its own."""
        from optim.onnx.files import save_for_measuring

        self.made.append(save_for_measuring(graph, self.store, session=session))
        return self.made[-1]

    def discard(self) -> None:
        """Deletes the saved models."""
        from optim.onnx.files import discard_measured

        while self.made:
            discard_measured(self.made.pop())
