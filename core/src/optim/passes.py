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
    """A fixed place in the pipeline, in this order; each one is a hook."""

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
    """What the gate asks of a pass.

    IMPROVE must be valid, right and better. ENABLE makes way for what follows: valid and right, and taken out at
    the end if nothing kept needs it. REQUESTED runs when named, or when the target requires it: valid and right.
    """

    IMPROVE = "improve"
    ENABLE = "enable"
    REQUESTED = "requested"


@dataclass(frozen=True, slots=True)
class Applicable:
    """Whether a pass can do something for a model, and if not, why.

    Attributes:
        yes: whether it can.
        reason: why not, as a user reads it in the report.
    """

    yes: bool
    reason: str = ""

    @classmethod
    def no(cls, reason: str) -> Applicable:
        """Not applicable, with the reason a user reads in the report."""
        return cls(False, reason)

    def __bool__(self) -> bool:
        return self.yes


APPLICABLE = Applicable(True)


@dataclass(frozen=True, slots=True)
class Variant:
    """One more way to feed a new model, which must then compute what another model does: a model without its adapter.

    Attributes:
        name: what the report calls it, e.g. ``without an adapter``.
        model: what it is compared with; it takes the feeds of the model that the pass was given, and has its outputs.
            None: the original, whose outputs are there already.
        feeds: called as ``function(feeds, **parameters)``: feeds of that model to feeds of the new one.
        parameters: JSON values.
        outputs: called as ``function(outputs, feeds)`` with the outputs of either side: what is compared of them; all
            where it is empty.
    """

    name: str
    model: Model | None
    feeds: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    outputs: str = ""


@dataclass(frozen=True, slots=True)
class Interface:
    """How to compare a model whose inputs or outputs a pass changed with the original.

    Functions are named (``package.module:function``), not passed: the gate calls them in another process. Two kinds:

    - The new feeds can be computed from the original's, and the original's outputs from the new ones: ``feeds`` and
      ``outputs``. The new model is compared with the original.
    - They cannot: no pixels of a JPEG file come from normalized pixels, no scores from a label. The pass *recasts* the
      model (:attr:`Pass.recasts`) and brings samples of the new kind, and an implementation of its own steps that
      shares nothing with the graph: ``raw``, ``given`` and ``expected``. The model that the pass was given is compared
      with the original as always, and the new model with what ``expected`` makes of that model's outputs.

    Attributes:
        feeds: called as ``function(feeds, **parameters)``: original feeds to new feeds.
        outputs: called as ``function(outputs, **parameters)``: new outputs to original outputs; of a recast, new
            outputs to what is compared, e.g. pixels in place of the bytes of a file.
        parameters: JSON values.
        raw: called as ``function(**parameters)``: a sequence of new feeds, always the same.
        given: called as ``function(feeds, **parameters)``: new feeds to feeds of the model that the pass was given.
        expected: called as ``function(outputs, feeds, **parameters)``: outputs of that model, for these new feeds, to
            what the new model must give.
        tolerance: largest drift between the two implementations; rounding is allowed in any case.
        variants: further ways to feed the new model. Each is held to the budget by itself.
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
        """Whether the new model takes the feeds of the one before it, and gives its outputs."""
        return not (self.feeds or self.outputs or self.raw)


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did.

    Attributes:
        model: the new model; the input model where nothing changed.
        changed: False needs a reason in ``notes``.
        notes: sentences for the report.
        counts: what happened, so that a no-op is visible: ``{"Attention": 6}``.
        interface: set where inputs or outputs changed.
        printed: what was printed while it was made; optim fills it in.
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
    """What a pass with some options exchanges: kernels of some operators for those of another precision.

    Attributes:
        operators: as a graph of floats calls them, e.g. ``MatMul``; a Gemm counts as one.
        precision: in the backend's own words.
        times: kernels that take the place of one.
    """

    operators: tuple[str, ...]
    precision: str
    times: int = 1


class Pass(ABC):
    """One transformation of a model. Stateless; instantiated without arguments in a worker process.

    Attributes:
        name: ``plugin.kebab-case``, e.g. ``ort.quantize-dynamic``.
        summary: one line for ``optim passes list``.
        options: a :class:`PassOptions` class, or ``"package.module:Class"``, resolved when first needed.
        role: what the gate asks of it.
        lossy: False: held to rounding error; True: held to the user's budget.
        before: passes (or ``plugin:*``) of the same stage that must come after this one.
        after: passes (or ``plugin:*``) of the same stage that must come before this one.
        alternatives: passes of one group exclude each other.
        goals: that it is tried for; empty: for any. Where it is named, it runs for any too.
        suits: goals for which it is the likeliest of its kind: where answers are the goal, it is looked at first.
        session_only: it changes session settings and never the graph, so the search may look ahead through it cheaply.
        calibrates: it runs the model on samples. Until it is known how long that takes, it is expected to take several
            times as long as a pass that only reads weights.
        kept: where its option ``keep`` leaves a node, in the words of the report.
        makes: the type that it converts to, as ``optim sensitivity --as`` calls it; empty for a pass without one.
        recasts: its interface brings samples of its own, see :class:`Interface`. It is tried on the original before
            anything is searched, and chains with it are timed against the original with it.
        hardware: what it wants of the hardware, one line for ``optim passes show``.
        why_none: why ``candidates`` proposes nothing, where it may do that; the reason in the report.
        apply_limit_s: seconds after which applying it is ended, such as compiling for a device that may hang; None:
            what the user allows.
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
        """Yes, or no with the reason. Cheap: reads the graph, runs nothing."""

    def refuse(self, options: Any, target: Target) -> None:  # noqa: B027 - most options work for every target
        """Raise an :class:`OptimError` where options that a user gave can never work for ``target``.

        Asked before a run does anything, in the process of the command line: it reads no model and imports nothing
        heavy.
        """

    def refuse_without_options(self) -> None:  # noqa: B027 - most passes propose options of their own
        """Raise an :class:`OptimError` where the pass can propose none: whoever names it has to give them.

        Asked in place of :meth:`refuse` where the user named the pass without options.
        """

    def runs_code(self, options: Any) -> tuple[str, ...]:
        """What these options name that applying the pass would import and run, e.g. ``package.module:Class``.

        A recipe or a lock may come from a stranger: where its options name something, it is refused unless the user
        says ``--trust-code``. Asked in the process of the command line, as :meth:`refuse`.
        """
        return ()

    def refuse_for(self, options: Any, model: Model, target: Target) -> None:  # noqa: B027 - as above
        """Raise an :class:`OptimError` where options that a user gave can never work for ``model``.

        Asked once, when the user's model has been read and before it is opened or run, in a process of its own. Passes
        that come before this one may still change the graph: inputs and outputs can be relied on, nodes cannot.
        """

    def refuse_without_data(self, options: Any, model: Model) -> None:  # noqa: B027 - most passes take made-up inputs
        """Raise an :class:`OptimError` where the pass needs samples of the user's own for ``model``.

        Asked where the user gave none, of passes that are named or that the target requires, after :meth:`refuse_for`
        and in the same process; ``options`` are then their defaults where the user gave none.
        """

    def inputs_for(self, options: Any, model: Model) -> tuple[TensorInfo, ...]:
        """The inputs of ``model`` in the sizes that the result will take, where the options fix some.

        Asked of passes that are named or that the target requires, after :meth:`refuse_for` and in the same process.
        ``options`` are their defaults where the user gave none and the pass proposes none of its own. Samples are made
        up in these sizes, and those of the user are held to them.
        """
        return model.inputs

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Yes, or no with the reason why it is known not to help here: no fast kernel on this machine, say.

        Asked only where the user did not name the pass: what is named is tried whatever is known. Cheap, as
        :meth:`applicable`, which is asked first.

        Args:
            model: to be changed.
            target: where it will run.
            goal: what better means: ``latency``, ``size``.
        """
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterable[PassOptions]:
        """The options that ``auto`` may try, best guess first, 1000 at most; by default the options' own defaults.

        Args:
            model: that the pass would be applied to.
            target: where the model will run.
            context: as of :meth:`apply`; its samples may be looked at.
        """
        from optim.options import options_class

        return (options_class(type(self))(),)

    def kernels(self, options: Any) -> Sequence[KernelUse]:
        """Which kernels the result would use in place of those of float32: what the pass promises goes by them.

        Empty where it exchanges none, or the backend's are not known; see :class:`optim.backend.KernelProbe`.
        """
        return ()

    def keepable(self, model: Model, options: Any) -> Sequence[str]:
        """Names of the nodes that the option ``keep`` can leave alone, in graph order; empty for a pass without it.

        A lossy pass with such an option is repaired by the core: where it breaks the budget, a small set to keep is
        searched for.
        """
        return ()

    def refinable(self, model: Model, options: Any) -> Sequence[str]:
        """Names of the nodes that the option ``finer`` can compute in a precision between the pass's and their own.

        A repair tries those that it would have to keep in that one first. Empty for a pass without the option.
        """
        return ()

    @abstractmethod
    def apply(self, model: Model, options: Any, context: Context) -> PassResult:
        """Make the new model.

        Args:
            model: never changed.
            options: an instance of the pass's own options class.
            context: the target, samples, a seeded generator, and where the new model is saved.

        Returns:
            The new model; or the one given and ``changed=False``, with the reason as a note.
        """
