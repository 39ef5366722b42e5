"""Puts into words why OpenVINO would not."""

from __future__ import annotations

import re

from optim import ExitStatus, Model, OptimError
from optim_openvino.runtime.installed import version

_OPERATORS = re.compile(r"(?:No conversion rule found for operations|Conversion is failed for): ([^\n]+)")
_WHY = re.compile(r"^-- \S+ with a message:\n(.*?)(?=\n\n|\n-- |\Z)", re.DOTALL | re.MULTILINE)
_PLACES = re.compile(r"^(Exception from |Check '.*' failed at |\s*$|While validating|FrontEnd API failed|Summary:)")
_NO_PROCESSOR = re.compile(r'"CPU" name is not registered|Cannot load library')
_NO_DEVICE = re.compile(r"Cannot load library|has not been registered|compiler loading failed|No available devices")


def refused(model: Model, device: str, error: Exception) -> OptimError:
    """The diagnosis for a model that OpenVINO did not open."""
    text = str(error)
    name = model.path.name
    if found := _OPERATORS.findall(text):
        operators = sorted({_operator(one.strip()) for line in found for one in line.split(",")})
        return OptimError(
            "openvino-operator",
            f"OpenVINO cannot run {name}",
            f"it does not have {', '.join(operators)}{_form(text)}",
            "choose another target: optim targets",
        )
    if _lacks_reader(text) or (device == "CPU" and _NO_PROCESSOR.search(text)):
        return damaged(error)
    if device != "CPU" and _NO_DEVICE.search(text):
        return OptimError(
            "openvino-device",
            f"OpenVINO finds no {device} here",
            plain(text),
            "optim targets; --target openvino runs on the processor",
            status=ExitStatus.TARGET_UNAVAILABLE,
        )
    named = [f"'{info.name}'" for info in model.inputs if info.is_dynamic]
    if device != "CPU" and named and "dynamic" in text.lower():
        return OptimError(
            "openvino-dynamic",
            f"OpenVINO's {device} refuses {name}",
            f"input {named[0]} has sizes that are not fixed: {plain(text)}",
            "fix them: optim run MODEL --with ort.fix-shapes:sizes=...; optim passes show ort.fix-shapes",
        )
    return OptimError(
        "openvino-refused", f"OpenVINO refuses {name}", plain(text), "choose another target: optim targets"
    )


def damaged(error: Exception) -> OptimError:
    """The diagnosis for an OpenVINO that cannot be imported, or lacks a library of its own."""
    return OptimError(
        "openvino-damaged",
        f"OpenVINO {version()} does not work here",
        plain(str(error)),
        f"pip install --force-reinstall openvino=={version()}",
        status=ExitStatus.TARGET_UNAVAILABLE,
    )


def _lacks_reader(text: str) -> bool:
    """Whether OpenVINO lists the formats that it can read, and ONNX is none of them."""
    _, listed, formats = text.partition("Available frontends:")
    return bool(listed) and "onnx" not in formats.split()


def _form(text: str) -> str:
    """What OpenVINO lacks of the first operator, where it has others of its kind."""
    found = _WHY.search(text)
    return f", or not in this form: {plain(found[1])}" if found else ", or not in this form"


def _operator(text: str) -> str:
    """OpenVINO writes ``Det-18``."""
    name, _, version = text.removeprefix("ai.onnx.").partition("-")
    return f"{name} of opset {version}" if version else name


def plain(text: str) -> str:
    """What a message says, without the places in OpenVINO's own sources."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _PLACES.match(line)]
    return " ".join(lines or text.split())[:400] or "it gives no reason"
