"""Sessions on ONNX Runtime: what ``optim.load``, the standard backend and vendors' plugins open models with.

ONNX Runtime fails quietly in three ways that are refused here: a provider that cannot be used is replaced by the CPU,
a node that a provider does not take is run on the CPU, and a run that fails on a device is done again on the CPU. Its
own exceptions become an ``OptimError`` that says what to do.
"""

from __future__ import annotations

import importlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnxruntime as ort

from optim.arrays import Array
from optim.backend import BackendLimits
from optim.errors import ExitStatus, OptimError
from optim.model import SessionConfig
from optim.onnx.external_data import FOLDER_CONFIG, session_model
from optim.onnx.libraries import installed_domains, operator_library_path
from optim.onnx.refusals import plain_message, session_failed
from optim.providers.assignment import RECORD_ASSIGNMENT, require_shapes_only
from optim.providers.names import CPU, CUDA, TENSORRT, settings_around_faults
from optim.providers.start import BUILD_COMMAND, missing_library, preload, remedy
from optim.target import Target

PLAIN_CPU = Target("cpu", "ort", CPU, device="CPU")
EXACT_INTEGERS = SessionConfig({}, {"session.x64quantprecision": "1"})
"""Makes onnxruntime add 8-bit products in 32 bits on x86 without VNNI, because they saturate otherwise. It changes
nothing on
other processors, nor at the optimization levels ``ORT_DISABLE_ALL`` and ``ORT_ENABLE_BASIC``."""

_SILENT = 4
_ASKED_DOMAINS = (
    "ai.onnx.ml",
    "ai.onnx.training",
    "ai.onnx.preview.training",
    "com.microsoft",
    "com.microsoft.experimental",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
)
_OLD_IR, _OLD_OPSET = 8, 17
_FAR_TOO_NEW = 200


def session_options(settings: SessionConfig) -> ort.SessionOptions:
    """``onnxruntime.SessionOptions`` with the settings of a model; refuses a setting that onnxruntime does not have."""
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    for name, value in settings.session_options.items():
        if not hasattr(options, name):
            raise _bad_setting(f"SessionOptions has no attribute '{name}'")
        chosen, kind = value, type(getattr(options, name))
        if isinstance(value, str) and hasattr(kind, "__members__"):
            chosen = kind.__members__.get(value)
            if chosen is None:
                raise _bad_setting(f"{kind.__name__} has no value '{value}'")
        try:
            setattr(options, name, chosen)
        except (TypeError, AttributeError) as error:
            raise _bad_setting(f"SessionOptions.{name} does not take {chosen!r}") from error
    for key, text in settings.session_config.items():
        options.add_session_config_entry(key, text)
    return options


def open_session(
    path: Path,
    settings: SessionConfig,
    target: Target = PLAIN_CPU,
    *,
    extra_config: Mapping[str, str] | None = None,
    libraries: Iterable[str] = (),
    supplied: Mapping[str, Array] | None = None,
) -> ort.InferenceSession:
    """Opens a model on a target's provider. Nodes only go to the CPU if the target allows it.

    Args:
        path: file of the graph.
        settings: settings of the model. Its options of a provider override those of the target.
        target: providers, with options and package, and number of threads; by default the CPU.
        extra_config: further config entries for this session, which do not belong to the model.
        libraries: packages with operators that the graph needs (see ``optim.onnx.libraries``).
        supplied: arrays for initializers that the model does not have itself.

    Raises:
        OptimError[provider-missing]: this onnxruntime has no such provider, or the package is not installed.
        OptimError[cpu-fallback]: the session would run on the CPU instead.
        OptimError[session-failed]: the runtime refused the model.
        OptimError[operators-missing]: a library of operators is not installed.
    """
    provider = target.provider
    chosen = {
        name: {**options, **settings.provider_options.get(name, {})}
        for name, options in {provider: target.provider_options, **target.also}.items()
    }
    devices = _devices(target, chosen)
    settings = settings.updated(settings_around_faults(path, target))
    options = _options_on(target, settings, extra_config or {})
    for package in libraries:
        options.register_custom_ops_library(operator_library_path(package))
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in (supplied or {}).items()}
    if values:
        options.add_external_initializers(list(values), list(values.values()))
    from_memory = session_model(path)
    if from_memory is not None:
        options.add_session_config_entry(FOLDER_CONFIG, from_memory[1])
    providers = None if devices else list(chosen.items())
    if devices:
        options.add_provider_for_devices(devices, chosen[provider])
    try:
        session = ort.InferenceSession(
            from_memory[0] if from_memory else str(path),
            options,
            providers=providers,
            disabled_optimizers=list(settings.disabled_optimizers) or None,
            enable_fallback=False,
        )
    except Exception as error:
        raise _not_opened(path, chosen, error) from error
    session.optim_supplied = values  # onnxruntime keeps no reference to them
    started = session.get_providers()
    if absent := [name for name in chosen if name not in started]:
        raise _fell_back(path, absent[0], started[0])
    if target.shapes_on_cpu and not target.fallback:
        require_shapes_only(session, path)
    return session


def _devices(target: Target, providers: Iterable[str]) -> list[Any]:
    """Devices of a provider that is a library of its own; none where this onnxruntime has the provider itself."""
    for name in providers:
        preload(name)
    provider = target.provider
    devices = register_provider(target.library, provider) if target.library else []
    available = ort.get_available_providers()
    if devices or provider in available:
        return devices
    raise OptimError(
        "provider-missing",
        f"this onnxruntime has no {provider}",
        f"it has {', '.join(available)}",
        _remedy(provider),
        status=ExitStatus.TARGET_UNAVAILABLE,
    )


def _remedy(provider: str) -> str:
    if provider in (CUDA, TENSORRT):
        return BUILD_COMMAND
    if provider in ort.get_all_providers():
        return "install the build of onnxruntime that has it: https://onnxruntime.ai/docs/execution-providers"
    return f"check the spelling, or name the package that ships the provider: --target ep:{provider},library=PACKAGE"


def _options_on(target: Target, settings: SessionConfig, extra_config: Mapping[str, str]) -> ort.SessionOptions:
    """The options of a model on a target: its threads, and whether nodes may go to the CPU."""
    options = session_options(target.within_threads(settings))
    entries = dict(extra_config)
    if target.shapes_on_cpu:
        entries |= RECORD_ASSIGNMENT
    elif target.provider != CPU and not target.fallback:
        entries["session.disable_cpu_ep_fallback"] = "1"
    for key, text in entries.items():
        options.add_session_config_entry(key, text)
    return options


def _not_opened(path: Path, providers: Iterable[str], error: Exception) -> OptimError:
    """The library that a provider lacks, or what the runtime says of the model and its settings."""
    could_not_start = isinstance(error, RuntimeError)  # the runtime's own exceptions, of models, are none
    absent = next((name for name in providers if missing_library(name)), None) if could_not_start else None
    return session_failed(path, error) if absent is None else _fell_back(path, absent, CPU)


def _fell_back(path: Path, provider: str, instead: str) -> OptimError:
    reason = missing_library(provider)
    said = f": {reason}" if reason else ""
    return OptimError(
        "cpu-fallback",
        f"{path.name} would run on {instead}, not on {provider}",
        f"onnxruntime could not start the provider and fell back{said}",
        remedy((provider,), reason) or "optim targets",
        status=ExitStatus.TARGET_UNAVAILABLE,
    )


@cache
def register_provider(library: str, provider: str) -> list[Any]:
    """Registers a provider of a separate package with onnxruntime.

    Returns:
        The devices that it can run on: devices other than a processor, if there are any; else its simulator.

    Raises:
        OptimError[provider-missing]: the package or one of its files is missing, or cannot be loaded.
    """
    try:
        if not any(device.ep_name == provider for device in ort.get_ep_devices()):
            ort.register_execution_provider_library(provider, importlib.import_module(library).get_library_path())
    except Exception as error:
        distribution = library.replace("_", "-")
        raise OptimError(
            "provider-missing",
            f"{provider} cannot be used",
            f"{library}: {plain_message(' '.join(str(error).split()))}",
            f"pip install --force-reinstall {distribution}",
            status=ExitStatus.TARGET_UNAVAILABLE,
        ) from error
    devices = [device for device in ort.get_ep_devices() if device.ep_name == provider]
    special = [device for device in devices if device.device.type != ort.OrtHardwareDeviceType.CPU]
    if not devices:
        raise OptimError(
            "provider-missing",
            f"{provider} finds no device here",
            f"{library} is installed, and has none of these domains",
            "optim targets",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )
    return (special or devices)[:1]


@cache
def runtime_limits() -> BackendLimits:
    """Finds the newest IR version and opsets that the installed onnxruntime accepts, with tiny models.

    onnxruntime refuses a far too new version of a domain that it knows. It accepts any version of an unknown domain,
    until a node needs an operator of it.
    """
    found = measure_limits(_opens)
    return BackendLimits(found.ir_version, {**found.opset, **installed_domains()})


def measure_limits(opens: Callable[[bytes], bool]) -> BackendLimits:
    """Finds the newest IR version and opsets that a build of ONNX Runtime accepts.

    Args:
        opens: whether the build opens a serialized model.
    """

    def accepts(domain: str, version: int) -> bool:
        return opens(_probe(_OLD_IR, {domain: version}))

    newest_ir = _newest(lambda version: opens(_probe(version, {})), _OLD_IR)
    opset = {"": _newest(partial(accepts, ""), _OLD_OPSET)}
    known = [domain for domain in _ASKED_DOMAINS if not accepts(domain, _FAR_TOO_NEW)]
    return BackendLimits(newest_ir, {**opset, **{domain: _newest(partial(accepts, domain), 0) for domain in known}})


def _newest(accepted: Callable[[int], bool], old: int) -> int:
    """The newest version that is accepted: this old one, or one behind it, up to which all are."""
    return old + bisect_left(range(old + 1, _FAR_TOO_NEW), True, key=lambda version: not accepted(version))


def _probe(ir_version: int, opsets: Mapping[str, int]) -> bytes:
    """A model of one node."""
    import onnx

    imports = ", ".join(f'"{domain}": {version}' for domain, version in {"": _OLD_OPSET, **opsets}.items())
    graph = "g (float[1] x) => (float[1] y) { y = Identity(x) }"
    model = onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]> {graph}")
    return bytes(model.SerializeToString())


def _opens(model: bytes) -> bool:
    quick = SessionConfig({"graph_optimization_level": "ORT_DISABLE_ALL", "intra_op_num_threads": 1})
    try:
        ort.InferenceSession(model, session_options(quick), providers=[CPU])
    except Exception:  # whatever it says, it does not accept the model
        return False
    return True


def _bad_setting(cause: str) -> OptimError:
    return OptimError.usage(
        "bad-session-setting",
        "onnxruntime does not have a session setting",
        cause,
        "names and values are those of onnxruntime.SessionOptions",
    )
