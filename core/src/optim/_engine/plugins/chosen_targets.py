"""Which targets a run is for (one, several with commas, or all that compete with ``auto``), and on which cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from optim._engine.plugins.registry import Registry, require_target
from optim.errors import ExitStatus, OptimError
from optim.hooks import RESERVED_NAMES
from optim.target import Target
from optim.workplace import Cluster

AUTO_TARGET = "auto"
"""All targets whose time can be measured here, and that a program of this machine can use."""

BASELINE_TARGET = "cpu"
"""Where several targets are held against the original: what a user has who did nothing is onnxruntime on the CPU."""


@dataclass(frozen=True, slots=True)
class ChosenTargets:
    """What stands behind ``--target``.

    Attributes:
        baseline: where the original is run that all else is held against.
        targets: those that can be used here, in the order in which they were named; one at least.
        absent: why the others cannot be used here, by name.
        auto: whether nobody named them.
    """

    baseline: Target
    targets: tuple[Target, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    auto: bool = False

    @property
    def note(self) -> str:
        """That nothing competes, where whoever said auto, or named several, may expect it; else empty."""
        if self.compete or not (self.auto or self.absent):
            return ""
        asked = "--target auto" if self.auto else "what is left of --target"
        why = _reasons(self.absent) or "no other is installed"
        return f"{asked} is {self.baseline.name}: no other target can be timed on this machine ({why})"

    @property
    def compete(self) -> bool:
        """Whether more is asked for than the baseline alone."""
        return self.targets != (self.baseline,)

    def requiring(self, name: str, pass_name: str) -> ChosenTargets:
        """The same; one of the targets requires a further pass, which the original turned out to need there."""

        def more(target: Target) -> Target:
            return replace(target, requires=(*target.requires, pass_name)) if target.name == name else target

        return replace(self, baseline=more(self.baseline), targets=tuple(map(more, self.targets)))


def target_names(text: str) -> list[str]:
    """The names in what stands behind ``--target``; commas inside the settings of one are its own.

    Examples:
        >>> target_names("cpu,openvino:device=GPU,streams=2")
        ['cpu', 'openvino:device=GPU,streams=2']
    """
    names: list[str] = []
    for part in text.split(","):
        of_the_last = names and ":" in names[-1] and "=" in part and ":" not in part.partition("=")[0]
        if of_the_last:
            names[-1] += f",{part}"
        else:
            names.append(part.strip())
    return list(dict.fromkeys(names))


def choose_targets(registry: Registry, text: str, *, here: bool = True, beside: bool = False) -> ChosenTargets:
    """The targets that a user's words stand for.

    ``here``: a single target must be usable on this machine, and one of several. ``beside``: a single target may be one
    that runs no ONNX model.
    """
    names = target_names(text)
    if AUTO_TARGET in names and len(names) > 1:
        raise OptimError.usage(
            "conflicting-request",
            f"--target {text} names auto beside others",
            "auto already stands for every target",
            f"--target auto, or --target {','.join(name for name in names if name != AUTO_TARGET)}",
        )
    if names == [AUTO_TARGET]:
        known = registry.targets()
        competing = [name for name, one in known.items() if one.timed and one.local and not one.runs_sources]
        return replace(_of_several(registry, competing, here=here), auto=True)
    if len(names) == 1:
        target = require_target(registry, names[0], beside=beside, here=here)
        return ChosenTargets(target, (target,))
    for name in names:
        target = require_target(registry, name, here=False)
        if not target.timed:
            raise OptimError.usage(
                "not-timed",
                f"nothing can be timed on target {target.name}",
                f"of several targets the fastest is delivered; {target.remark or 'on this one time means nothing'}",
                f"name it alone: --target {target.name}",
            )
    return _of_several(registry, names, here=here)


def _baseline(registry: Registry, targets: Sequence[Target]) -> Target:
    """The CPU as the first of the targets names it, with its threads; else as it is, and where it is none the first."""
    for one in targets:
        if one.name.partition(":")[0] == BASELINE_TARGET:
            return one
    found = registry.targets().get(BASELINE_TARGET)
    return targets[0] if found is None or registry.unavailable(found) else registry.target(BASELINE_TARGET)


def _of_several(registry: Registry, names: Sequence[str], *, here: bool) -> ChosenTargets:
    known = [registry.target(name) for name in names]
    absent = {target.name: reason for target in known if (reason := registry.unavailable(target))}
    usable = tuple(target for target in known if target.name not in absent)
    if not usable and here:
        raise OptimError(
            "target-unavailable",
            f"none of the targets {', '.join(absent) or 'there are'} can be used on this machine",
            _reasons(absent) or "no plugin brings one",
            "optim targets",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )
    return ChosenTargets(_baseline(registry, usable or known), usable, absent)


def _reasons(absent: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in absent.items())


def find_cluster(registry: Registry, where: str) -> Cluster:
    """The cluster that takes what stands before the colon, else the one that takes whatever no other does."""
    offered: list[type[Cluster]] = [offer.value for offer in registry.offered("workplace").values()]
    scheme = where.partition(":")[0]
    for one in (*(one for one in offered if scheme in one.schemes), *(one for one in offered if not one.schemes)):
        return one()
    for owner in RESERVED_NAMES["workplace"].values():
        registry.require_plugin(owner, f"--cluster {where} cannot be used")
    raise OptimError.usage(
        "bad-cluster",
        f"--cluster {where} names no cluster",
        "no plugin that can be used takes it",
        "optim plugins doctor",
    )
