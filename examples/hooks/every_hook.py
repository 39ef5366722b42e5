"""A plugin with every hook there is; docs/hooks.md shows its parts, and the tests load it and ask it.

It imports nothing heavy while it loads, as every plugin should: what needs numpy, onnx or pydantic
imports it when it is used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from optim import (
    APPLICABLE,
    Applicable,
    Backend,
    Command,
    Exported,
    Exporter,
    Metric,
    MetricFamily,
    Pass,
    PassResult,
    Role,
    SessionConfig,
    SourcePass,
    SourceResult,
    Target,
    hookimpl,
)
from optim.goal import Figure, Goal, GoalClock, Timer, Words
from optim.layout import Laid, Layout, place_graph
from optim.onnx import OnnxRuntimeBackend
from optim.origin import Origin
from optim.workplace import Cluster, Done, perform

OPTIM_HOOK_API = 1


class Rename(Pass):
    """Gives the graph a name; stands for any pass over a model."""

    name = "every.rename"
    summary = "Names the graph."
    role = Role.REQUESTED

    def applicable(self, model, target) -> Applicable:
        return APPLICABLE

    def apply(self, model, options, context) -> PassResult:
        graph = model.ir()
        if graph.graph.name == "every":
            return PassResult(model, False, ("it has its name already",))
        graph.graph.name = "every"
        return PassResult(context.save(graph, model), True, counts={"name": 1})


class Quantize(Rename):
    name = "every.quantize"


class Convert(Rename):
    name = "every.convert"


class Finish(Rename):
    name = "every.finish"


class OneThread(Pass):
    """One thread."""

    name = "every.one-thread"
    summary = "Runs the model on one thread."
    session_only = True

    def applicable(self, model, target) -> Applicable:
        return APPLICABLE

    def apply(self, model, options, context) -> PassResult:
        return PassResult(model.with_session(SessionConfig({"intra_op_num_threads": 1})), True, ("one thread",))


# --- optim_pre_export
class Evaluate(SourcePass):
    name = "every.evaluate"
    summary = "Switches dropout off, whatever the factory left on."
    after = ("torch.load-factory",)

    def applicable(self, source, target) -> Applicable:
        return APPLICABLE

    def apply(self, source, options, context) -> SourceResult:
        for component in source.components:
            component.module.eval()
        return SourceResult(source, True, counts={"components": len(source.components)})


@hookimpl
def optim_pre_export(target: Target) -> Sequence[type[SourcePass]]:
    return (Evaluate,)


# --- end


# --- optim_export
class Export(Exporter):
    name = "every.export"
    summary = "torch.onnx.export, every size as in the example."
    after = ("torch.dynamo", "torch.torchscript")

    def applicable(self, component, target) -> Applicable:
        named = [name for one in component.inputs for name in one.shape or () if isinstance(name, str)]
        return Applicable.no(f"{named[0]} is dynamic") if named else APPLICABLE

    def export(self, component, options, context) -> Exported:
        import torch

        tensors = [torch.from_numpy(component.example[one.name]) for one in component.inputs]
        names = {
            "input_names": [one.name for one in component.inputs],
            "output_names": [one.name for one in component.outputs],
        }
        return Exported(torch.onnx.export(component.module, (tensors,), dynamo=True, **names).model)


@hookimpl
def optim_export(target: Target) -> Sequence[type[Exporter]]:
    return (Export,)


# --- end


# --- optim_fuse
@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    return (Rename,) if target.name == "every" else ()


# --- end


# --- optim_quantize
@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    return (Quantize,) if target.provider == "CPUExecutionProvider" else ()


# --- end


# --- optim_convert_precision
@hookimpl
def optim_convert_precision(target: Target) -> Sequence[type[Pass]]:
    return (Convert,)


# --- end


# --- optim_tune
@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    return (OneThread,)  # session_only: it returns model.with_session(...)


# --- end


# --- optim_post_process
@hookimpl
def optim_post_process(target: Target) -> Sequence[type[Pass]]:
    return (Finish,)  # role requested: runs when it is named, or when the target requires it


# --- end


# --- optim_targets
def probe() -> str | None:
    """The reason why the target cannot be used here, or None; looks for a file, imports no runtime."""
    return None


TARGET = Target("every", backend="every", provider="CPUExecutionProvider", device="a device", probe=probe)


@hookimpl
def optim_targets() -> Sequence[Target]:
    return (TARGET,)


# --- end


# --- optim_backends
class EveryBackend(OnnxRuntimeBackend):
    name = "every"


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    return (EveryBackend,)


# --- end


# --- optim_metrics
def agreement(outputs, feeds, labels) -> float:
    """Share of rows whose most likely class is the label; called for one sample, averaged over all."""
    return float((outputs["y"].argmax(axis=-1) == labels["label"]).mean())


@hookimpl
def optim_metrics() -> Sequence[Metric | MetricFamily]:
    return (
        Metric("every-agreement", higher_is_better=True, call=agreement, needs_labels=True),
        MetricFamily(
            "every-near",
            make="every_hook_metric:near",  # imported when it is used, as its options are
            options="every_hook_metric:NearOptions",
            summary="share of values near the label",
        ),
    )


# --- end


# --- optim_layouts
class Numbered(Layout):
    name = "every-numbered"
    summary = "a folder for each version, for the server of this page"
    consumer = "pip install onnxruntime"
    opener = Path(__file__).with_name("every_hook_opener.py")

    def refuse(self, files, options) -> str:
        return ""  # it takes every result

    def write(self, result, folder, options) -> Laid:
        place_graph(result, folder / "1" / "model.onnx")
        return Laid("1/model.onnx")  # and opens it with the runtime's default settings


@hookimpl
def optim_layouts() -> Sequence[type[Layout]]:
    return (Numbered,)


# --- end


# --- optim_workplaces
class ThisMachine:
    at_once = 1  # jobs at the same time
    machine = "this machine"  # what figures depend on
    libraries, report = {}, {}  # of the machine that times: as here
    available_bytes = 1 << 30

    def seen(self, target) -> Target:
        return target

    def now(self) -> float:
        return time.monotonic()

    def working(self) -> AbstractContextManager[None]:
        return nullcontext()

    def do(self, work) -> Done:
        return perform(work)  # another machine's program would call this there


class Machines(Cluster):
    name = "every-machines"
    schemes = ("every",)  # --cluster every:...

    def check(self, where) -> None:
        pass  # an OptimError if nobody answers there

    @contextmanager
    def connect(self, request) -> Iterator[ThisMachine]:
        request.say(f"connected to {request.where}")
        yield ThisMachine()


@hookimpl
def optim_workplaces() -> Sequence[type[Cluster]]:
    return (Machines,)


# --- end


# --- optim_goals
@dataclass(frozen=True, slots=True)
class TailClock(GoalClock):
    calls: int  # travels to the process that times, as JSON

    def start(self, subject) -> Timer:
        return Tail(subject, self.calls)


class Tail(Timer):
    def __init__(self, subject, calls) -> None:
        self.subject, self.calls = subject, calls

    def round(self) -> Figure:
        seconds = self.subject.session.time_runs(self.subject.feeds[0], self.calls)
        return Figure(sorted(seconds)[-1 - self.calls // 20])  # 19 of 20 calls take no longer


class TailGoal(Goal):
    name = "every-tail"
    summary = "the time that 19 of 20 calls keep within"
    words = Words("tail ratio", "answers {} times sooner", "answers {} times later", "answers as soon as before")

    def clock(self, asked) -> GoalClock:
        return TailClock(calls=40)


@hookimpl
def optim_goals() -> Sequence[type[Goal]]:
    return (TailGoal,)


# --- end


# --- optim_origins
class Here(Origin):
    name = "every"  # optim run every:///models/model.onnx

    def fetch(self, address, say) -> Path:
        say(f"looking for {address}")
        return Path(address.removeprefix("every://"))  # another origin would download it


@hookimpl
def optim_origins() -> Sequence[type[Origin]]:
    return (Here,)


# --- end


# --- optim_after_run
@hookimpl
def optim_after_run() -> Sequence[str]:
    # imported when the verdict is known; the function below returns Findings
    return ("every_hook_look:look",)


# --- end


# --- optim_commands
@hookimpl
def optim_commands() -> Sequence[Command]:
    # optim every; imported when it is called
    return (Command("every_hook_command:every", help="Says that it is there."),)


# --- end
