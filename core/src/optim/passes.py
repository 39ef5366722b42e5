"""A pass: one transformation that a plugin contributes to a stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from optim.model import Model, TensorInfo
from optim.target import Target

if TYPE_CHECKING:
    from optim.context import Context
    from optim.options import PassOptions


class Stage(StrEnum):
    """A fixed place in the pipeline, in this order; each stage has a hook.

    Attributes:
        PRE_EXPORT: passes change the source.
        EXPORT: exporters turn the source into a graph.
        FUSE: passes replace nodes by fewer or faster ones.
        QUANTIZE: passes store or compute numbers with 8 bits or fewer.
        CONVERT_PRECISION: passes convert float numbers to 16 bits.
        TUNE: passes set options of the session.
        POST_PROCESS: passes finish the result of the search.
    """

    PRE_EXPORT = "pre-export"
    EXPORT = "export"
    FUSE = "fuse"
    QUANTIZE = "quantize"
    CONVERT_PRECISION = "convert-precision"
    TUNE = "tune"
    POST_PROCESS = "post-process"

    @property
    def hook(self) -> str:
        """The hook that contributes passes to this stage."""
        return "optim_" + self.value.replace("-", "_")


MODEL_STAGES = (Stage.FUSE, Stage.QUANTIZE, Stage.CONVERT_PRECISION, Stage.TUNE, Stage.POST_PROCESS)
"""The stages that change an ONNX model; the two before them change and export a torch source."""


class Role(StrEnum):
    """The tests that the gate applies to a pass.

    Attributes:
        IMPROVE: The candidate must be valid, right and better.
        ENABLE: The candidate must be valid and right. optim removes the pass at the end if no later pass needs it.
        REQUESTED: The candidate must be valid and right. The pass runs if the user or the target names it.
    """

    IMPROVE = "improve"
    ENABLE = "enable"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class Applicable:
    """Whether a pass can change a model, and the reason if it cannot.

    Attributes:
        yes: whether the pass can change the model.
        reason: reason why it cannot, as the report shows it.
    """

    yes: bool
    reason: str = ""

    @classmethod
    def no(cls, reason: str) -> Applicable:
        """Returns "not applicable" with a reason for the report."""
        return cls(False, reason)

    def __bool__(self) -> bool:
        return self.yes


APPLICABLE = Applicable(True)


@dataclass(frozen=True, slots=True)
class Variant:
    """A further way to feed a new model, such as a model without its adapter, and the model that it must agree with.

    Attributes:
        name: name in the report, e.g. ``without an adapter``.
        model: model to compare with. It takes the inputs of the model that the pass received, and has its outputs.
            None: the original, whose outputs optim knows already.
        feeds: function that turns inputs of ``model`` into inputs of the new model, called as ``function(feeds,
            **parameters)``.
        parameters: JSON values for the functions.
        outputs: function that selects the outputs to compare, called as ``function(outputs, feeds)`` for either model;
            empty: all.
    """

    name: str
    model: Model | None
    feeds: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    outputs: str = ""


@dataclass(frozen=True, slots=True)
class Interface:
    """How to compare a model with the original after a pass changed its inputs or outputs.

    Name each function as ``package.module:function``, because the gate calls it in another process. There are two kinds
    of interfaces:

    - The new inputs can be computed from the original inputs, and the original outputs from the new ones. Give
      ``feeds`` and ``outputs``. optim compares the new model with the original.
    - They cannot be computed: normalized pixels give no JPEG file, and a label gives no scores. The pass *recasts* the
      model (``Pass.recasts``). Give ``raw``, ``given`` and ``expected``: samples of the new kind, and an implementation
      of the new steps that shares no code with the graph. optim compares the model that the pass received with the
      original, and the new model with the result of ``expected``.

    Attributes:
        feeds: turns original inputs into new inputs, called as ``function(feeds, **parameters)``.
        outputs: turns new outputs into original outputs, called as ``function(outputs, **parameters)``. After a recast,
            turns new outputs into values to compare, e.g. the bytes of a file into pixels.
        parameters: JSON values for the functions.
        raw: returns a sequence of new inputs, always the same, called as ``function(**parameters)``.
        given: turns new inputs into inputs of the model that the pass received, called as ``function(feeds,
            **parameters)``.
        expected: turns outputs of that model into the outputs that the new model must give, called as
            ``function(outputs, feeds, **parameters)`` with the new inputs.
        tolerance: largest drift between the two implementations. optim allows rounding in any case.
        variants: further ways to feed the new model. Each must keep the budget.
    """

    feeds: str = ""
    outputs: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    raw: str = ""
    given: str = ""
    expected: str = ""
    tolerance: float = 0.0
    variants: tuple[Variant, ...] = ()

    def __post_init__(self) -> None:
        """A recast is whole or none."""
        if len({bool(self.raw), bool(self.given), bool(self.expected)}) != 1:
            raise ValueError("an Interface with one of raw, given and expected needs all three")
        if self.raw and self.feeds:
            raise ValueError("an Interface maps samples, or brings raw samples: not both")

    @property
    def is_as_before(self) -> bool:
        """Whether the new model has the same inputs and outputs as the model before it."""
        return not (self.feeds or self.outputs or self.raw)


@dataclass(frozen=True, slots=True)
class PassResult:
    """Result of a pass.

    Attributes:
        model: the new model, or the input model if the pass changed nothing.
        changed: whether the pass changed the model. If not, give a reason in ``notes``.
        notes: sentences for the report.
        counts: number of changes by kind, e.g. ``{"Attention": 6}``.
        interface: how to compare the new model, if inputs or outputs changed.
        printed: text that the pass printed. optim fills it in.
    """

    model: Model
    changed: bool
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    interface: Interface | None = None
    printed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """A silent no-op is a defect of the pass."""
        if not self.changed and not self.notes:
            raise ValueError("PassResult(changed=False) needs a reason in notes")


@dataclass(frozen=True, slots=True)
class KernelUse:
    """Kernels of another precision that a pass uses in place of float32 kernels.

    Attributes:
        operators: operators in a float graph, e.g. ``MatMul``. A Gemm counts as a MatMul.
        precision: precision, as the backend names it.
        times: number of new kernels for each float32 kernel.
    """

    operators: tuple[str, ...]
    precision: str
    times: int = 1


class Pass(ABC):
    """One transformation of a model, without state. optim makes an instance without arguments in a worker process.

    Attributes:
        name: ``plugin.kebab-case``, e.g. ``ort.quantize-dynamic``.
        summary: one line for ``optim passes list``.
        options: a ``PassOptions`` class, or ``"package.module:Class"``, which optim imports when it needs the class.
        role: tests that the gate applies to the pass.
        lossy: whether the result may differ from the original by more than rounding. It must keep the user's budget.
        before: passes of the same stage (or ``plugin:*``) that run after this one.
        after: passes of the same stage (or ``plugin:*``) that run before this one.
        alternatives: name of a group of passes. A model gets at most one pass of a group.
        goals: goals for which optim tries the pass; empty: all. A pass that the user names runs for every goal.
        suits: goals for which the pass helps most among passes of its kind. For goal ``generate``, optim tries it
            first.
        session_only: whether the pass only changes session settings and never the graph. The search looks ahead through
            such a pass cheaply.
        calibrates: whether the pass measures ranges on samples. optim does not offer it on synthesized ones unless the
            user names it, and expects it to take several times as long as another pass, until it has measured the time.
        kept: where the option ``keep`` leaves a node, in the words of the report.
        makes: type that the pass converts to, as in ``optim sensitivity --as``; empty: none.
        recasts: whether the interface brings samples of its own (see ``Interface``). optim tries the pass on the
            original before it searches, and compares the times of candidates with the original after this pass.
        hardware: required hardware, one line for ``optim passes show``.
        why_none: reason for the report if ``candidates`` proposes nothing.
        apply_limit_s: time limit for ``apply`` in seconds, e.g. for a compiler that may hang; None: the limit of the
            user.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[str | type[PassOptions]] = "optim.options:NoOptions"
    role: ClassVar[Role] = Role.IMPROVE
    lossy: ClassVar[bool] = False
    before: ClassVar[tuple[str, ...]] = ()
    after: ClassVar[tuple[str, ...]] = ()
    alternatives: ClassVar[str | None] = None
    goals: ClassVar[tuple[str, ...]] = ()
    suits: ClassVar[tuple[str, ...]] = ()
    session_only: ClassVar[bool] = False
    calibrates: ClassVar[bool] = False
    kept: ClassVar[str] = "in float"
    recasts: ClassVar[bool] = False
    makes: ClassVar[str] = ""
    hardware: ClassVar[str] = ""
    why_none: ClassVar[str] = "it proposed nothing"
    apply_limit_s: ClassVar[float | None] = None

    @abstractmethod
    def applicable(self, model: Model, target: Target) -> Applicable:
        """Decides whether the pass can change the model, and says why not. Reads the graph and runs nothing."""

    def refuse(self, options: Any, target: Target) -> None:  # noqa: B027 - most options work for every target
        """Raises an ``OptimError`` if the user's options can never work for ``target``.

        optim asks before a run begins, in the process of the command line. Read no model and import nothing heavy.
        """

    def refuse_without_options(self) -> None:  # noqa: B027 - most passes propose options of their own
        """Raises an ``OptimError`` if the pass cannot propose options, so that the user has to give them.

        optim asks this instead of ``refuse`` if the user named the pass without options.
        """

    def runs_code(self, options: Any) -> tuple[str, ...]:
        """Returns the code that these options name and that ``apply`` would import, e.g. ``package.module:Class``.

        A recipe or lock may come from a stranger. If its options name code, optim refuses it unless the user gives
        ``--trust-code``. optim asks in the process of the command line, as for ``refuse``.
        """
        return ()

    def refuse_for(self, options: Any, model: Model, target: Target) -> None:  # noqa: B027 - as above
        """Raises an ``OptimError`` if the user's options can never work for ``model``.

        optim asks once in a process of its own, after it has read the user's model and before it runs the model.
        Earlier passes may still change the graph: rely on inputs and outputs, not on nodes.
        """

    def refuse_without_data(self, options: Any, model: Model) -> None:  # noqa: B027 - most passes take made-up inputs
        """Raises an ``OptimError`` if the pass needs the user's own samples for ``model``.

        optim asks passes that the user or the target names, if the user gave no samples. The call comes after
        ``refuse_for``, in the same process. ``options`` has the defaults if the user gave none.
        """

    def inputs_for(self, options: Any, model: Model) -> tuple[TensorInfo, ...]:
        """Returns the inputs of ``model`` with the sizes of the result, if the options fix some sizes.

        optim asks passes that the user or the target names, after ``refuse_for`` and in the same process. ``options``
        has the defaults if the user gave none and the pass proposes none. optim synthesizes samples in these sizes, and
        checks the user's samples against them.
        """
        return model.inputs

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Decides whether the pass may help here, and gives the reason if not, e.g. no fast kernel on this machine.

        optim asks after ``applicable``, and only if the user did not name the pass. Be as quick as ``applicable``.

        Args:
            model: model to change.
            target: where the model will run.
            goal: property to improve, e.g. ``latency`` or ``size``.
        """
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterable[PassOptions]:
        """Yields the options that optim may try, the best guess first, at most 1000. By default the defaults.

        Args:
            model: model to change.
            target: where the model will run.
            context: the context of ``apply``, with the samples.
        """
        from optim.options import options_class

        return (options_class(type(self))(),)

    def kernels(self, options: Any) -> Sequence[KernelUse]:
        """Returns the kernels that the result uses in place of float32 kernels.

        optim estimates the gain of the pass from them. Return nothing if the pass exchanges no kernels, or if the
        kernels of the backend are unknown (see ``optim.backend.KernelProbe``).
        """
        return ()

    def keepable(self, model: Model, options: Any) -> Sequence[str]:
        """Returns the nodes that the option ``keep`` can leave alone, in graph order; none without that option.

        If a lossy pass exceeds the budget, optim repairs it: it searches a small set of nodes to keep.
        """
        return ()

    def refinable(self, model: Model, options: Any) -> Sequence[str]:
        """Returns the nodes that the option ``finer`` can compute in a precision between that of the pass and float.

        A repair tries this precision before it keeps a node in float. Returns none without that option.
        """
        return ()

    @abstractmethod
    def apply(self, model: Model, options: Any, context: Context) -> PassResult:
        """Makes the new model.

        Args:
            model: the model, which must not change.
            options: an instance of the options class of the pass.
            context: the target, samples, a seeded generator, and the place to save the new model.

        Returns:
            The new model; or the given model with ``changed=False`` and the reason as a note.
        """
