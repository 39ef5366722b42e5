"""A metric by what the user wrote: a plugin's with its options, a function of a module, or one of the calling program.

A function of a notebook or a script has no name that another process could import, and may look at what the program
holds. So jobs ask the calling program, and import nothing of it. The function is called where it was written, one call
at a time; what it returns is not kept from run to run.

A question is a frame of JSON with the name of the function and the number of its arguments, and one with these as
``.npz``; the answer is a frame of JSON. Nothing is pickled: neither side could be made to run anything but the metric.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import numpy as np

from optim._engine.compare.metric_spec import IN_PYTHON, CallingProgram, MetricSpec
from optim._engine.feeds.sources import without_torch
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds, Outputs
from optim.errors import OptimError, unknown_name
from optim.metric import CannotJudge, Metric, MetricFamily
from optim.options import import_named, parse_options
from optim.user_code import find_function, import_here

_KNOWN = ("outputs", "labels", "feeds")

_LONGEST_FOLDER = 70
"""Bytes: a path has 103 at most on macOS, and the folder made here takes 29 of them."""

_ENDING_S = 5.0
"""For who answers to see that it is over: next to nothing, but on a machine that stands still."""

_SUMS = "sums"
"""The name of the only argument of ``finish``."""

_AGAIN_S = 0.01
"""Before the next call is taken, where one could not be: there may be no descriptor left."""


def find_metric(spec: MetricSpec) -> Metric:
    """Make the metric; a function of the user's is looked for in the working folder.

    Raises:
        OptimError[unknown-metric]: there is no such function, or no such metric of the plugin.
        OptimError[unknown-option]: an option that it does not have; lists the near ones.
        OptimError[bad-option]: a value that does not fit.
    """
    if spec.program is not None:
        return metric_of_program(spec, spec.program)
    if spec.names_code:
        return _users(spec)
    offer = load_registry(only=[spec.plugin] if spec.plugin else None).offer("metric", spec.name)
    if isinstance(offer.value, MetricFamily):
        return _member(offer.value, spec, offer.plugin)
    _refuse_options(spec)
    found: Metric = offer.value
    return found


def metric_digest(spec: MetricSpec) -> str:
    """Returns what its figures depend on beside its name and options: the source of a user's function, hex."""
    if not spec.names_code:
        return ""
    path = inspect.getsourcefile(import_here(spec.name.partition(":")[0]))
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path else ""


def _member(family: MetricFamily, spec: MetricSpec, plugin: PluginInfo) -> Metric:
    options = parse_options(family, spec.options, "optim metrics")
    make: Any = import_named(family.make) if isinstance(family.make, str) else family.make
    found = make(options)
    if not isinstance(found, Metric):
        raise OptimError.usage(
            "unknown-metric",
            f"{spec.name} makes no metric",
            f"it made {type(found).__name__}, not a Metric",
            f"optim plugins show {plugin.name}",
            plugin.release,
        )
    return found


def _users(spec: MetricSpec) -> Metric:
    module, _, name = spec.name.partition(":")
    try:
        found = find_function(spec.name)
    except Exception as error:
        raise OptimError.usage(
            "unknown-metric",
            f"there is no function {spec.name}",
            f"{type(error).__name__}: {error}",
            f"python -c 'from {module} import {name}' must work in {Path.cwd()}",
        ) from error
    if isinstance(found, Metric):
        _refuse_options(spec)
        return found
    if not callable(found):
        raise OptimError.usage(
            "unknown-metric",
            f"{spec.name} is no function",
            f"it is a {type(found).__name__}",
            "name a function that takes outputs and labels and returns a number",
        )
    higher = spec.options.get("higher_is_better", getattr(found, "higher_is_better", True))
    if set(spec.options) - {"higher_is_better"} or not isinstance(higher, bool):
        raise OptimError.usage(
            "bad-option",
            f"options of metric {spec.name} do not fit",
            "a function has the option higher_is_better",
            f'--metric "{spec.name}:higher_is_better=false"',
        )
    return metric_of(found, spec.name, higher_is_better=higher)


def metric_of(function: Callable[..., Any], name: str, *, higher_is_better: bool) -> Metric:
    """A function as a metric: it is given those of outputs, labels and feeds that it names."""
    return Metric(name, higher_is_better, _called(function))


def _refuse_options(spec: MetricSpec) -> None:
    if spec.options:
        raise unknown_name("option", next(iter(spec.options)), (), fix=f"{spec.name} has no options")


def _called(function: Any) -> Callable[[Outputs, Feeds, Feeds], Any]:
    """The user's function with the arguments that it names, or by position: outputs, labels, feeds."""
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty or parameter.name in _KNOWN
    ]
    by_name = all(parameter.name in _KNOWN for parameter in parameters)

    def call(outputs: Outputs, feeds: Feeds, labels: Feeds) -> Any:
        given = {"outputs": outputs, "labels": labels, "feeds": feeds}
        if by_name:
            return function(**{parameter.name: given[parameter.name] for parameter in parameters})
        return function(*(given[name] for name in _KNOWN[: len(parameters)]))

    return call


@contextmanager
def served(metric: Metric) -> Iterator[MetricSpec]:
    """The metric as a run names it; while the context lasts, jobs of this machine reach it.

    Args:
        metric: whose functions are called in this process, on threads of their own.
    """
    import secrets

    key, ended = secrets.token_hex(16), threading.Event()
    with _address() as address, Listener(address, authkey=bytes.fromhex(key)) as listener:
        serving = threading.Thread(target=_serve, args=(listener, metric, ended), name="optim-metric", daemon=True)
        serving.start()
        program = CallingProgram(
            address=str(listener.address),
            key=key,
            higher_is_better=metric.higher_is_better,
            counts=metric.finish is not None,
            compares=metric.compares,
            needs_labels=metric.needs_labels,
        )
        try:
            yield MetricSpec(f"{metric.name}{IN_PYTHON}", program=program)
        finally:
            ended.set()
            with suppress(OSError):
                Client(program.address).close()  # closing a listener wakes nobody who waits for calls
            serving.join(_ENDING_S)


@contextmanager
def _address() -> Iterator[str | None]:
    """Where jobs call: in a short folder, since the path of a socket has some hundred bytes at most; None: anywhere."""
    if os.name == "nt":
        yield None
        return
    usual = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(
        prefix="optim-metric-", dir=usual if len(os.fsencode(usual)) <= _LONGEST_FOLDER else "/tmp"
    ) as folder:
        yield f"{folder}/socket"


def metric_of_program(spec: MetricSpec, program: CallingProgram) -> Metric:
    """The metric as a job has it: each call asks the program."""

    def call(*arguments: Any) -> Any:
        return _asked(spec, program, "call", arguments)

    def finish(sums: Any) -> float:
        return float(_asked(spec, program, "finish", ({_SUMS: sums},)))

    return Metric(
        spec.name,
        program.higher_is_better,
        call,
        finish=finish if program.counts else None,
        compares=program.compares,
        needs_labels=program.needs_labels,
    )


def _serve(listener: Listener, metric: Metric, ended: threading.Event) -> None:
    """Take whoever calls, until that is over; a caller without the key, or that ends meanwhile, stops nothing."""
    one_at_a_time = threading.Lock()
    while not ended.is_set():
        try:
            connection = listener.accept()
        except Exception:
            ended.wait(_AGAIN_S)
            continue
        threading.Thread(target=_answer_all, args=(connection, metric, one_at_a_time), daemon=True).start()


def _answer_all(connection: Connection, metric: Metric, one_at_a_time: threading.Lock) -> None:
    finish = metric.finish
    functions: dict[str, Callable[..., Any]] = {"call": metric.call}
    if finish is not None:
        functions["finish"] = lambda sums: finish(sums[_SUMS])
    with connection, suppress(EOFError, OSError):
        while True:
            name, count = json.loads(connection.recv_bytes())
            arguments = _unpacked(connection.recv_bytes(), count)
            with one_at_a_time:
                answer = _answer(functions[name], arguments)
            connection.send_bytes(json.dumps(answer).encode())


def _answer(function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Any]:
    try:
        found = function(*arguments)
    except CannotJudge as reason:
        return {"cannot_judge": str(reason)}
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}
    return {"value": _plain(found)}


def _plain(found: Any) -> Any:
    """Numbers as JSON has them; whatever else it is in words, which are then refused."""
    array = np.asarray(without_torch(found))
    return array.astype(np.float64).tolist() if array.dtype.kind in "biuf" else repr(found)


def _asked(spec: MetricSpec, program: CallingProgram, name: str, arguments: Sequence[Mapping[str, Any]]) -> Any:
    try:
        with Client(program.address, authkey=bytes.fromhex(program.key)) as connection:
            connection.send_bytes(json.dumps([name, len(arguments)]).encode())
            connection.send_bytes(_packed(arguments))
            answer = json.loads(connection.recv_bytes())
    except (OSError, EOFError) as error:
        raise OptimError(
            "metric-failed",
            f"the program that has metric {spec.name} cannot be reached",
            f"{type(error).__name__}: {error}",
            "the program must not end before the run",
        ) from error
    if "cannot_judge" in answer:
        raise CannotJudge(answer["cannot_judge"])
    if "raised" in answer:
        raise OptimError(
            "metric-failed",
            f"metric {spec.name} failed",
            answer["raised"],
            "call it by hand with the model's outputs on one sample",
        )
    return answer["value"]


def _packed(arguments: Sequence[Mapping[str, Any]]) -> bytes:
    """Mappings of arrays as ``.npz``: ``0/name``."""
    named = {f"{place}/{name}": array for place, one in enumerate(arguments) for name, array in one.items()}
    packed = io.BytesIO()
    np.savez(packed, **{name: _without_objects(np.asarray(array)) for name, array in named.items()})
    return packed.getvalue()


def _unpacked(packed: bytes, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(count)]
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        for key in archive.files:
            place, _, name = key.partition("/")
            found[int(place)][name] = archive[key]
    return found


def _without_objects(array: Any) -> Any:
    """Text as text, and what numpy has no name for (bfloat16) as float32."""
    if array.dtype.hasobject:
        return array.astype(str)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
