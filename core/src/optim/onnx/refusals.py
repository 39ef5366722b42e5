"""Why ONNX Runtime refuses a model, in words a user can act on.

Its exceptions name a source file and a function of its own first, and the offending node last; this turns them round.
Kept free of ``onnxruntime`` itself, so that a message can be read where the runtime is not installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from optim.errors import OptimError

_NOISE = (
    re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : "),
    re.compile(r"Load model from .*? failed: ?"),
    re.compile(r"\S+\.(?:cc|h):\d+ "),
    re.compile(r"(?:[\w:<>*&]+ )?onnxruntime::[\w:~]+\((?:[^()]|\([^()]*\))*\)(?: const)? "),
    re.compile(r"^(?:This is an invalid model\. |Fatal error: |Invalid model\. )+"),
)
_LONGEST = 400


@dataclass(frozen=True)
class _Refusal:
    """One kind of message: how it is recognised, the cause made of its groups, and what to do about it."""

    pattern: str
    cause: str
    fix: str


_KINDS = (
    _Refusal(
        r"No Op registered for (\S+) with domain_version of (\d+)",
        r"opset \2 has no operator \1",
        "export the model again with the opset that has the operator, or give the node the domain it belongs to",
    ),
    _Refusal(
        r"([\w.]+):(\w+)\((-?\d+)\) is not a registered function/op",
        r"the operator \1:\2 is not in this onnxruntime",
        "replace the operator by standard ones before export, or choose a target whose backend has it: optim targets",
    ),
    _Refusal(
        r"Could not find an implementation for ([\w.]+)\((\d+)\) node with name '([^']*)'",
        r"the provider has no kernel for \1 of opset \2 with these types (node '\3')",
        "export the model with opset 21, convert the node's inputs to float32 or int64, or choose another target: "
        "optim targets",
    ),
    _Refusal(
        r"two nodes with same node name \((.*?)\)",
        r"two nodes have the name '\1'",
        "name each node differently: python -c \"import onnx; m = onnx.load('model.onnx'); "
        "[n.ClearField('name') for n in m.graph.node]; onnx.save(m, 'renamed.onnx')\"",
    ),
    _Refusal(
        r"Opset (\d+) is under development.*?for domain (\S+) is till opset (\d+)|Opset (\d+) is under development",
        r"opset \1\4 is newer than this onnxruntime",
        "export the model with an older opset (opset_version=), or install a newer onnxruntime",
    ),
    _Refusal(
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        r"it has IR version \1; this onnxruntime accepts up to \2",
        "save the model with an older ir_version, or install a newer onnxruntime",
    ),
    _Refusal(
        r"External data path does not exist: \"(?:[^\"]*/)?([^\"/]*)\"",
        r"its weights file \1 is not beside it",
        "put the weights file back beside the model; both belong together",
    ),
    _Refusal(
        r"Failed to construct locale with name:([\w.@-]+?):",
        r"its StringNormalizer asks for the locale \1, which this machine lacks",
        "install it (Debian: apt install locales && locale-gen en_US.UTF-8), or export the model with another locale",
    ),
    _Refusal(
        r"Unknown provider option: \"(\w+)\"|Invalid TensorRT EP option: (\w+)",
        r"the provider of this onnxruntime has no option \1\2",
        "leave out the pass that sets it (--without), or install the onnxruntime that the settings were made with",
    ),
    _Refusal(
        r"Failed to parse provider option \"(\w+)\"|The value for the key '(\w+)' should be",
        r"the provider does not take this value of its option \1\2",
        "leave out the pass that sets it (--without)",
    ),
    _Refusal(
        r"Protobuf parsing failed", "it is not an ONNX file, or only a part of one", "copy or export the file again"
    ),
    _Refusal(r"File doesn't exist", "there is no such file", "check the path"),
    _Refusal(
        r"Failed to allocate memory|std::bad_alloc",
        "the memory is not enough for this model",
        "free memory, or use a smaller model",
    ),
)

_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_INVALID = re.compile(
    r"Type Error|acyclic|Duplicate definition|not a graph input|Unrecognized attribute|ShapeInferenceError"
)


def session_failed(path: Path, error: BaseException) -> OptimError:
    """Makes the error for a runtime that refuses to open ``path``: OptimError[session-failed]."""
    text = " ".join(str(error).split())
    what = f"onnxruntime refuses {_shortened(path.name)}"
    for kind in _KINDS:
        match = re.search(kind.pattern, text)
        if match:
            cause = match.expand(kind.cause).replace(" (node '')", "")  # a node may have no name
            return OptimError("session-failed", what, _shortened(cause), kind.fix)
    fix = f"optim inspect {'MODEL' if _DIGEST.search(path.name) else path.name}"
    if _INVALID.search(text):
        fix = f"the file is not a valid model: export it again; {fix} shows its operators"
    return OptimError("session-failed", what, _shortened(plain_message(text))[:_LONGEST], fix)


def _shortened(text: str) -> str:
    """A text in which files of the store are called by the first part of their digest."""
    return _DIGEST.sub(r"\1", text)


def plain_message(text: str) -> str:
    """Removes the error code, source files and folders of this machine from a message of the runtime."""
    for noise in _NOISE:
        text = noise.sub("", text)
    return re.sub(r"/\S*/(\S+\.(?:onnx|data))\b", r"\1", text)
