"""``optim.run``: from a model to a run folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optim._engine.api.given import Data, TaskMetric, named_data, named_metric
from optim._engine.api.request import default_output, require_run, settings_from
from optim._engine.search.settings import Named, joined_targets
from optim._engine.sources.naming import fetched, needs_export, quiet
from optim.source import SourceRequest

if TYPE_CHECKING:
    from optim._engine.reports.schema import LayoutReport, Report
    from optim._engine.runs.delivering import LayoutRequest


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
    """Makes a model faster on a target, compares it with the original, and writes a folder to deploy.

    If an argument is None, the recipe decides; if the recipe has no such key, the default of the command line.

    Args:
        model: an ``.onnx`` file as a path, a URL or ``hf://ORG/NAME/FILE``; a folder of ``optim.export``; a Hugging
            Face folder; ``hf://ORG/NAME``; or ``package.module:factory``.
        output: the run folder: a new or empty folder, or one of an earlier run. By default ``MODEL-optim``.
        target: where the model will run (see ``optim targets``); by default ``cpu``. With several, or with ``"auto"``
            for all that can be timed here, optim delivers the fastest result.
        data: input samples: an ``.npz`` file, a folder of them, or ``package.module:function``; one sample, which maps
            names to arrays; several samples; or a function that returns them. By default optim synthesizes samples.
        goal: property to improve: ``latency``, ``size``, ``memory``, ``startup``, ``throughput``, ``generate`` (the
            time of a decoder's answer), or ``accuracy``: the least drift or the best metric within the limits. By
            default ``latency``, or ``generate`` for a decoder.
        generate: tokens of a decoder's prompt and answer, ``prompt=512,new=128`` by default. Implies the goal
            ``generate``.
        max_latency_ms: largest latency of the result in milliseconds; with ``goal="throughput"``, of 95 of 100 calls.
        max_size: largest size of the result on disk: ``"50MB"``, ``"48MiB"``, or bytes.
        max_memory: largest peak memory of opening and running the result, in the same units.
        max_drift: largest drift of any output, for lossy passes. By default 0.1, or no limit with ``max_loss``.
        metric: task metric: a name of ``optim metrics`` with its options, ``package.module:function``, a function of
            ``outputs``, ``labels`` and ``feeds`` of one sample, or an ``optim.Metric``.
        max_loss: largest loss of the metric: ``"1%"`` of the original's value, or an amount.
        max_mismatch: share of the texts or whole numbers of an output that may differ: ``0.01``, or ``"1%"``. By
            default none.
        lossless: allow rounding error only.
        max_batch_drift: largest drift of a sample between running alone and in a batch or with padding.
        recipe: a recipe or a lock; or the contents of a recipe as a mapping.
        trust_code: import and run the functions and classes that ``recipe`` names.
        passes: required passes by name; a mapping gives their options (None: those that the pass proposes).
        without: passes to leave out.
        stages: only these stages; empty: all.
        preset: length of the search: ``quick``, about 30 s; ``default``, as the model needs; ``best``, as long as
            something promises a gain, up to 30 minutes.
        search_seconds: time limit of the whole run, in place of ``preset``; ``auto``: that of ``default``.
        timeout: time limit for one candidate, in seconds.
        seed: random seed.
        fresh: ignore the cache.
        pick: deliver another proven result: ``fastest``, ``smallest``, ``most-accurate``, or its number.
        source: how to export the source, if the defaults do not work.
        deliver: further layouts for the result, as in ``optim.deliver``.
        files: files for these layouts, as in ``optim.deliver``; by default those of the source.
        opened_by: Python that has the programs of these layouts.
        cluster: machines that do the work: ``local:N``, ``tls://HOST:PORT``, ``tcp://localhost:PORT``, or
            ``package.module:function``, which returns a client or a cluster of dask. By default this machine.
        store_url: place where these machines exchange files, such as ``file:///shared/optim``. By default this process
            carries them.
        trace: file that records the run for a replay. optim then ignores the cache.
        say: function that gets progress, a line at a time.

    Returns:
        The contents of ``report.json``; for a source with several components, of the one with the worst status. If the
            status is ``budget-missed`` or ``failed``, the folder has a report and no model. If it has the model of an
            earlier run, that model stays with its report, and the new report is in ``not-delivered/``.

    Raises:
        OptimError: the model, the samples, the target, the folder or the request cannot be used.

    Examples:
        >>> report = optim.run("model.onnx", "out", data={"x": x}, max_drift=0.02)
        >>> report.status, report.result.latency_ratio
        ('improved', 0.41)
    """
    words = {**locals(), "source": None}  # what the caller said, by the names of the arguments
    say = say or quiet
    path = fetched(fspath(model), say)
    named = passes.items() if isinstance(passes, Mapping) else ((name, None) for name in passes)
    words |= {"target": joined_targets(target), "without": tuple(without), "stages": tuple(stages)}
    words |= {"named": tuple(Named(name, options) for name, options in named), "trace": trace and fspath(trace)}
    export = source or (SourceRequest(str(path), seed=seed or 0) if needs_export(str(path)) else None)
    with named_data(data, seed or 0) as feeds, named_metric(metric) as judged_by:
        said = {**words, "data": feeds, "metric": judged_by}
        laid = recipe if recipe is None or isinstance(recipe, Mapping) else Path(recipe)
        settings, lock = settings_from(path, export, laid, said, trust_code=trust_code)
        require_run(settings)
        folder = Path(output) if output is not None else default_output(path)
        layouts = _layouts(deliver, files, opened_by) if deliver else None
        from optim._engine.reports.outcome import exit_status
        from optim._engine.runs.run import ToDeliver, run_asked

        reports = run_asked(settings, folder, say, ToDeliver(lock, pick, layouts))
    return max(reports.values(), key=exit_status)


def _layouts(
    texts: Sequence[str], files: str | PathLike[str] | None, opened_by: str | PathLike[str] | None
) -> LayoutRequest:
    from optim._engine.runs.delivering import LayoutRequest

    return LayoutRequest(tuple(texts), Path(files) if files else None, Path(opened_by) if opened_by else None)


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
    from optim._engine.runs.delivering import find_deliverer

    registry, asked = load_registry(), _layouts((layout,), files, opened_by)
    deliverer = find_deliverer(registry)
    with named_data(data, 0) as feeds:
        return deliverer.deliver(registry, asked, Path(run_folder), Path(output), say or quiet, feeds)
