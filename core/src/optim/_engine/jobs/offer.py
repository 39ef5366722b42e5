"""Job: ask passes what they can do for a model. Passes that change session settings only are applied at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from optim._engine.backends.held import called
from optim._engine.compare.distrust import PLUGINS_ISSUE, Untouched, require_fit, unchanged
from optim._engine.compare.place import mapped_feeds
from optim._engine.feeds.feedset import FEWEST, SYNTHESIZED, FeedSet
from optim._engine.graphs.node_lookup import unknown_nodes
from optim._engine.jobs.job import Job
from optim._engine.jobs.recorded import recorded
from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds
from optim.context import Context
from optim.errors import OptimError
from optim.jobs.doing import Limit, PluginCall, calling
from optim.jobs.talk import Channel
from optim.jobs.wire import to_wire
from optim.model import Model
from optim.onnx.digests import model_digest
from optim.options import PassOptions, options_class, parse_options
from optim.passes import Applicable, Interface, KernelUse, Pass, PassResult
from optim.target import Target

_MOST_CANDIDATES = 1000
"""The plugins here propose 20 at most; a generator without an end would take all memory until the time is over."""


@dataclass(frozen=True, slots=True)
class PassQuestion:
    """One pass: its name, its plugin, the options the user gave (None: the pass proposes), and whether it must hold."""

    name: str
    plugin: str
    options: dict[str, Any] | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """A model and the passes to ask, in order; ``goal`` is what better means."""

    model: Model
    target: Target
    passes: tuple[PassQuestion, ...]
    store: Path
    feeds: Path
    seed: int
    goal: str = "latency"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One set of options; for a session-only pass also what it made of the model; and kernels that it exchanges."""

    options: dict[str, Any]
    result: PassResult | None = None
    kernels: tuple[KernelUse, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it may change the model, as far as that is known."""
        return self.result is None or self.result.changed


@dataclass(frozen=True, slots=True)
class PassOffer:
    """What one pass says of the model.

    Attributes:
        applicable: whether it proposes anything.
        unknown: names in the user's ``keep`` that no node of the model has.
        not_here: whether it applies, and is known not to help on this machine.
    """

    name: str
    applicable: bool
    reason: str
    proposals: tuple[Proposal, ...] = ()
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_here: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Every offer has been sent as an event by now."""


JOB = Job(__name__, Request, Answer)
CHECKED = (Applicable, PassOffer, PassResult)


def run(request: Request, channel: Channel) -> Answer:
    """Send ``asking`` before and ``offer`` after each pass, so that a crash belongs to one of them."""
    registry = load_registry(only=sorted({asked.plugin for asked in request.passes}))
    for asked in request.passes:
        channel.event("asking", name=asked.name)
        offered = registry.find_pass(asked.name, request.target)
        with pass_working(offered, "asked what it offers for", request.model):
            offer = require_fit(_offer(offered.over_models(), asked, request), PassOffer, asked.name)
        channel.event("offer", offer=to_wire(offer))
    return Answer()


@contextmanager
def pass_working(offered: OfferedPass, doing: str, model: Model, limit_s: float | None = None) -> Iterator[None]:
    """Have a pass do something with a model: the parent of this process is told, and the model must stay as it is.

    Args:
        offered: the pass.
        doing: what it is doing, to come before the model.
        model: that it is given.
        limit_s: what its plugin allows it.

    Raises:
        OptimError[mutated-input]: the model changed. A pass that damaged it may well fail over it: this says why.
    """
    release, limit = offered.plugin.release, Limit(limit_s, "its plugin's own limit")
    before = Untouched.now(model)
    try:
        with calling(PluginCall(f"pass {offered.name} ({release}) was {doing} {called(model)}", release, limit=limit)):
            yield
    finally:
        before.require(offered.name)


_NOTHING_TO_CALIBRATE_ON = "it measures ranges on samples, and optim synthesized these: give yours with --data"


def _offer(transformation: Pass, asked: PassQuestion, request: Request) -> PassOffer:
    applicable = require_fit(transformation.applicable(request.model, request.target), Applicable, asked.name)
    if not applicable.yes:
        return PassOffer(asked.name, False, applicable.reason or "its plugin gave no reason")
    if not asked.forced:
        promise = transformation.worth_trying(request.model, request.target, request.goal)
        if not require_fit(promise, Applicable, asked.name).yes:
            return PassOffer(asked.name, False, promise.reason or "its plugin gave no reason", not_here=True)
    samples = Calibration(request.feeds)
    if transformation.calibrates and not samples.feeds_given and not asked.forced and asked.options is None:
        return PassOffer(asked.name, False, _NOTHING_TO_CALIBRATE_ON, not_here=True)
    with context_for(request.target, request.store, samples, request.seed) as context:
        if asked.options is None:
            proposed = proposed_options(transformation, request.model, request.target, context)
            if asked.forced and not proposed:  # what was named is tried, whatever the pass thinks of it
                proposed = [options_class(type(transformation))()]
        else:
            proposed = [parse_options(type(transformation), asked.options)]
        proposals = []
        for options in proposed:
            result = _tuned(transformation, options, request, context) if transformation.session_only else None
            proposals.append(Proposal(to_wire(options), result, tuple(transformation.kernels(options))))
    kept = (asked.options or {}).get("keep") if transformation.lossy else None
    unknown = unknown_nodes(request.model, kept) if kept else {}
    reason = "" if proposals else transformation.why_none
    return PassOffer(asked.name, bool(proposals), reason, tuple(proposals), unknown)


def proposed_options(transformation: Pass, model: Model, target: Target, context: Context) -> list[PassOptions]:
    """What a pass proposes.

    Raises:
        OptimError[bad-result]: it is no sequence, or has no end.
    """
    found: object = transformation.candidates(model, target, context)
    returned = f"{type(found).__name__}, not an iterable"
    if isinstance(found, Iterable):
        proposed = list(islice(found, _MOST_CANDIDATES + 1))
        if len(proposed) <= _MOST_CANDIDATES:
            return proposed
        returned = f"more than {_MOST_CANDIDATES}"
    what = f"candidates of {transformation.name} returned {returned}"
    raise OptimError("bad-result", what, "its plugin breaks the contract of passes", PLUGINS_ISSUE)


def _tuned(transformation: Pass, options: object, request: Request, context: Context) -> PassResult:
    """What a session-only pass made of the model: its settings are taken, and nothing else."""
    name, model = transformation.name, request.model
    result = recorded(context.log, lambda: transformation.apply(model, options, context))
    result = require_fit(result, PassResult, name)
    if not result.changed:
        return unchanged(result, model)
    if result.model.path != model.path:
        cause, fix = ("it declares session_only", "leave it out (--without), and report this to its plugin")
        raise OptimError("graph-changed", f"{name} changed the graph", cause, fix)
    session = result.model.session
    tuned = replace(
        model, session=session, digest=model_digest(model.path, session), provenance=(*model.provenance, name)
    )
    return unchanged(result, model) if tuned.digest == model.digest else replace(result, model=tuned)


@contextmanager
def context_for(
    target: Target, store: Path, samples: Calibration | None, seed: int, score: Callable[[Path], float] | None = None
) -> Iterator[Context]:
    """A context whose scratch folder lies beside the store (same disk) and goes away with it.

    Without ``samples`` the context has none. ``score`` is the context's.
    """
    store.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=store.parent, prefix="scratch-") as scratch:
        yield Context(
            target=target,
            scratch=Path(scratch),
            store=store,
            seed=seed,
            samples=samples or (lambda: iter(())),
            log=logging.getLogger("optim.pass"),
            report_progress=lambda share, text: None,
            feeds_given=samples is not None and samples.feeds_given,
            score=score,
        )


class Calibration:
    """What :attr:`optim.Context.samples` is: called for a fresh iterator over all that is not held out.

    Attributes:
        feeds_given: whether the samples are the user's.
    """

    def __init__(self, feeds: Path, interfaces: Sequence[Interface] = ()) -> None:
        """Read what samples there are; they are as the model takes them after the steps of ``interfaces``."""
        self._feeds, self._interfaces = FeedSet.open(feeds), interfaces
        self._was_asked = False
        self.feeds_given = self._feeds.origin != SYNTHESIZED

    def __call__(self) -> Iterator[Feeds]:
        self._was_asked = True
        return (mapped_feeds(self._feeds.sample(index), self._interfaces) for index in self._feeds.calibration)

    @property
    def notes(self) -> tuple[str, ...]:
        """For the step of a pass that asked for the user's samples: what it was fitted to."""
        if not self._was_asked or not self.feeds_given:
            return ()
        count = len(self._feeds)
        if self._feeds.held_out:
            return (f"calibrated on {len(self._feeds.calibration)} of {count} samples, judged on the others too",)
        same = "the one sample" if count == 1 else f"the {count} samples"
        return (
            f"calibrated on {same} used to measure drift, so other samples may drift more; "
            f"with {FEWEST} or more samples, optim holds out every fourth",
        )
