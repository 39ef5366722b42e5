"""``optim.run``: from a model to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optim._engine.api.given import Data, TaskMetric, named_data, named_metric
from optim._engine.api.request import default_output, require_run, settings_from
from optim._engine.search.settings import Named, joined_targets
from optim._engine.sources.address import fetched, quiet
from optim._engine.sources.naming import needs_export
from optim.source import SourceRequest

if TYPE_CHECKING:
    from optim._engine.reports.schema import Report
    from optim._engine.runs.delivering import LayoutRequest
    from optim._engine.search.settings import RunSettings


def run(
    model: str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    target: str | Sequence[str] | None = None,
    data: Data | None = None,
    goal: str | None = None,
    generate: str | None = None,
    max_latency_ms: float | None = None,
    max_size: str | int | None = None,
    max_memory: str | int | None = None,
    max_drift: float | None = None,
    metric: TaskMetric | None = None,
    max_loss: str | float | None = None,
    max_mismatch: str | float | None = None,
    lossless: bool | None = None,
    max_batch_drift: float | None = None,
    recipe: str | PathLike[str] | Mapping[str, Any] | None = None,
    trust_code: bool = False,
    passes: Sequence[str] | Mapping[str, Mapping[str, Any] | None] = (),
    without: Sequence[str] = (),
    stages: Sequence[str] = (),
    preset: Literal["quick", "default", "best"] | None = None,
    search_seconds: float | Literal["auto"] | None = None,
    timeout: float | None = None,
    seed: int | None = None,
    fresh: bool = False,
    pick: str = "",
    source: SourceRequest | None = None,
    deliver: Sequence[str] = (),
    files: str | PathLike[str] | None = None,
    opened_by: str | PathLike[str] | None = None,
    cluster: str | None = None,
    store_url: str | None = None,
    trace: str | PathLike[str] | None = None,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Make a model fast for a target, verify it, and leave a folder to deploy.

    What is None is decided by the recipe, and where that is silent as on the command line.

    Args:
        model: an ``.onnx`` file, by its path, its URL or as ``hf://ORG/NAME/FILE``; a folder of :func:`optim.export`, a
            Hugging Face folder, ``hf://ORG/NAME``, or ``package.module:factory``.
        output: the run folder; absent, empty, or of an earlier run. By default ``MODEL-optim``.
        target: where it will run, see ``optim targets``; by default ``cpu``. Of several, or of all that can be timed
            here with ``"auto"``, the fastest is delivered.
        data: feeds: an ``.npz``, a folder of them, or ``package.module:function``; a sample, which is a mapping of
            names to arrays; several; or a function that returns them. By default they are made up.
        goal: ``latency``, ``size``, ``memory``, ``startup``, ``throughput``, of a decoder ``generate``: the time of an
            answer; or ``accuracy``: least drift, or best metric, within the bounds below. By default ``latency``, of a
            decoder that takes tokens and its own past alone ``generate``.
        generate: tokens of a decoder's prompt and answer, ``prompt=512,new=128`` by default; its goal is ``generate``.
        max_latency_ms: largest latency of the result, in milliseconds; with ``goal="throughput"`` what 95 of 100 calls
            keep within.
        max_size: largest size of the result on disk: ``"50MB"``, ``"48MiB"``, or bytes.
        max_memory: largest peak memory of opening and running the result, likewise.
        max_drift: largest drift of any output that lossy passes may cause; by default 0.1, or no bound where
            ``max_loss`` is given.
        metric: task metric: a name of ``optim metrics`` with its options, ``package.module:function``, a function
            of ``outputs``, ``labels`` and ``feeds`` of one sample, or an :class:`optim.Metric`.
        max_loss: how much worse the metric may get: ``"1%"`` of the original's value, or an amount.
        max_mismatch: share of the texts or whole numbers of one output that may differ: ``0.01``, or ``"1%"``; by
            default none.
        lossless: admit only passes held to rounding error.
        max_batch_drift: the largest drift of a sample between running alone and in a padded batch.
        recipe: a recipe or a lock; or what a recipe says, as a mapping.
        trust_code: let the file ``recipe`` name functions and classes that are imported and run.
        passes: passes that must hold, by name; a mapping gives their options (None: what the pass proposes).
        without: passes to leave out.
        stages: only these stages; empty: all.
        preset: how long to search: about 30 s, what the model needs (the default), or as long as anything promises a
            gain, up to 30 minutes.
        search_seconds: of the whole run, in place of those of the preset; ``auto`` is those of ``default``.
        timeout: for one candidate, in seconds.
        seed: of everything random.
        fresh: take nothing from the cache.
        pick: deliver another point of the front: ``fastest``, ``smallest``, ``most-accurate``, or its number.
        source: how the source is exported, where it is no ``.onnx`` file and the defaults do not do.
        deliver: layouts that the result is written in too, as :func:`optim.deliver` takes them.
        files: what these layouts take along, as there; by default of the source.
        opened_by: the Python that has their programs.
        cluster: machines that do the work: ``local:N``, ``tls://HOST:PORT``, ``tcp://localhost:PORT``, or
            ``package.module:function``, which returns a client or a cluster of dask; by default this machine.
        store_url: where these exchange files, such as ``file:///shared/optim``; by default this process carries them.
        trace: file that takes all that the run does, for a replay; nothing is taken from the cache then.
        say: told what is going on, a line at a time.

    Returns:
        What ``report.json`` says; of a source with several components, of the one that fared worst.
        ``report.status`` is ``budget-missed`` or ``failed`` where a pass that was named did not hold; the folder
        then has a report and no model. A model that an earlier run delivered stays, with its own report: the new one
        is then in ``not-delivered/``.

    Raises:
        OptimError: the model, the feeds, the target, the folder or the request cannot be used.

    Example:
        >>> report = optim.run("model.onnx", "out", data={"x": x}, max_drift=0.02)
        >>> report.status, report.result.latency_ratio
        ('improved', 0.41)
    """
    say = say or quiet
    path = fetched(fspath(model), say)
    named = passes.items() if isinstance(passes, Mapping) else ((name, None) for name in passes)
    words = {
        "target": joined_targets(target),
        "goal": goal,
        "generate": generate,
        "max_latency_ms": max_latency_ms,
        "max_size": max_size,
        "max_memory": max_memory,
        "max_drift": max_drift,
        "max_loss": max_loss,
        "max_mismatch": max_mismatch,
        "lossless": lossless,
        "max_batch_drift": max_batch_drift,
        "named": tuple(Named(name, options) for name, options in named),
        "without": tuple(without),
        "stages": tuple(stages),
        "preset": preset,
        "search_seconds": search_seconds,
        "timeout": timeout,
        "seed": seed,
        "fresh": fresh,
        "cluster": cluster,
        "store_url": store_url,
        "trace": trace and fspath(trace),
    }
    export = source or (SourceRequest(str(path), seed=seed or 0) if needs_export(str(path)) else None)
    with named_data(data, seed or 0) as feeds, named_metric(metric) as judged_by:
        said = {**words, "data": feeds, "metric": judged_by}
        laid = recipe if recipe is None or isinstance(recipe, Mapping) else Path(recipe)
        settings, lock = settings_from(path, export, laid, said, trust_code=trust_code)
        require_run(settings)
        folder = Path(output) if output is not None else default_output(path)
        layouts = _layouts(deliver, files, opened_by, settings, folder)
        from optim._engine.reports.outcome import exit_status
        from optim._engine.runs.run import ToDeliver
        from optim._engine.runs.source_run import run_asked

        reports = run_asked(settings, folder, say, ToDeliver(lock, pick, layouts))
    return max(reports.values(), key=exit_status)


def _layouts(
    texts: Sequence[str],
    files: str | PathLike[str] | None,
    opened_by: str | PathLike[str] | None,
    settings: RunSettings,
    folder: Path,
) -> LayoutRequest | None:
    """The layouts that were asked for, which this run can write."""
    if not texts:
        return None
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.delivering import LayoutRequest, require_layouts

    asked = LayoutRequest(tuple(texts), Path(files) if files else None, Path(opened_by) if opened_by else None)
    require_layouts(load_registry(), asked, settings, folder)
    return asked
