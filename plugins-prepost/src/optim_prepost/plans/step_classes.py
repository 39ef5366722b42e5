"""From a planned step to an instance of its class; users' own classes are imported by their name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from optim.errors import ExitStatus, OptimError, unknown_name
from optim_prepost import PACKAGE
from optim_prepost.plans.catalog import KINDS
from optim_prepost.plans.plan import PlannedStep
from optim_prepost.plans.settings import read_vocabulary

if TYPE_CHECKING:
    from onnxruntime_extensions.tools.pre_post_processing import Step

_WORDPIECE = ("BertTokenizer", "BertTokenizerQADecoder")


def step_class(kind: str) -> type[Step]:
    """The class of a step, by its name in the catalog or as ``package.module:Class``.

    Raises:
        OptimError[unknown-step]: there is none of that name.
        OptimError[bad-step]: it cannot be imported, or is no Step.
    """
    from onnxruntime_extensions.tools.pre_post_processing import Step

    if kind in KINDS:
        module, name = KINDS[kind].module, kind
    else:
        module, _, name = kind.partition(":") if ":" in kind else kind.rpartition(".")
        if not module:
            raise unknown_name("step", kind, KINDS, fix="a step of your own is written package.module:Class")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _bad(kind, f"it cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Step)):
        raise _bad(kind, "it is not a subclass of onnxruntime_extensions.tools.pre_post_processing.Step")
    return found


def make_step(planned: PlannedStep) -> Step:
    """An instance with the planned parameters, called by the planned label.

    Raises:
        OptimError: unknown-step, bad-step.
    """
    cls = step_class(planned.kind)
    try:
        arguments = {name: _argument(value) for name, value in planned.params.items()}
        if planned.kind in _WORDPIECE:
            _read_words(arguments["tokenizer_param"])
        step = cls(**arguments)
    except OptimError:
        raise
    except Exception as error:
        raise _bad(planned.name, f"its constructor raised {type(error).__name__}: {error}") from error
    step.name = planned.name
    return step


def _read_words(param: Any) -> None:
    """A vocabulary in place of its path: the steps know one format of file only."""
    if not isinstance(param.vocab_or_file, dict):
        param.vocab_or_file = read_vocabulary(str(param.vocab_or_file))


def _argument(value: Any) -> Any:
    """JSON knows no tuples, which these constructors insist on; ``{"type": "list"}`` asks for a list."""
    if isinstance(value, dict) and "type" in value:
        kind = str(value["type"])
        if kind in ("list", "tuple"):
            items = [_argument(item) for item in value["value"]]
            return items if kind == "list" else tuple(items)
        if isinstance(value.get("params"), dict):
            return _parameter_class(kind)(**{name: _argument(item) for name, item in value["params"].items()})
    if isinstance(value, (list, tuple)):
        return tuple(_argument(item) for item in value)
    return value


def _parameter_class(kind: str) -> Any:
    """A class that a step takes as a parameter, e.g. TokenizerParam."""
    from onnxruntime_extensions.tools import pre_post_processing

    if hasattr(pre_post_processing, kind):
        return getattr(pre_post_processing, kind)
    module, _, name = kind.partition(":") if ":" in kind else kind.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _bad(kind: str, cause: str) -> OptimError:
    return OptimError(
        "bad-step",
        f"step {kind} cannot be used",
        cause,
        "optim passes show prepost.append lists what a plan takes",
        PACKAGE,
        ExitStatus.NOT_HELD,
    )
