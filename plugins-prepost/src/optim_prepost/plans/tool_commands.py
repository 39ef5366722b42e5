"""Olive's ready lists by their names, as presets here."""

from __future__ import annotations

from typing import Any

from optim.errors import OptimError, unknown_name
from optim_prepost import PACKAGE
from optim_prepost.plans.append_options import AppendOptions

_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_TASKS = {"QuestionAnswering": "question-answering", "SequenceClassification": "text-classification"}
_COMMANDS = ("superresolution", "mobilenet", "yolo_detection", "transformers_and_bert", "whisper")


def as_preset(options: AppendOptions) -> AppendOptions:
    """The options of the preset that a ``tool_command`` with its arguments stands for.

    Raises:
        OptimError[unknown-tool-command]: Olive had none of that name.
        OptimError[bad-step-list]: an argument has no counterpart here.
    """
    command, args = options.tool_command or "", options.tool_command_args or {}
    if command not in _COMMANDS:
        raise unknown_name("tool command", command, _COMMANDS, fix="give a preset, or lists pre and post")
    if not isinstance(args, dict):
        raise _bad(command, "its arguments are a list; they are names and values")
    left = {name: value for name, value in args.items() if name != "onnx_opset"}
    values = {
        "superresolution": _super_resolution,
        "mobilenet": _mobilenet,
        "yolo_detection": _yolo,
        "transformers_and_bert": _bert,
        "whisper": _whisper,
    }[command](left)
    if left:
        raise _bad(command, f"it has no argument {', '.join(sorted(left))} here")
    kept = {"input": options.input, "target_opset": options.target_opset, "samples": options.samples}
    return AppendOptions.model_validate({**kept, **values})


def _super_resolution(args: dict[str, Any]) -> dict[str, Any]:
    return {
        "preset": "super-resolution",
        "image_format": args.pop("output_format", "png"),
        "resize": "shortest",
        "interpolation": "bilinear",
    }


def _mobilenet(args: dict[str, Any]) -> dict[str, Any]:
    source = str(args.pop("model_source", "PYTORCH")).rpartition(".")[2].upper()
    if source not in ("PYTORCH", "0"):
        raise _bad("mobilenet", f"model_source {source}: only models with channels first are known here")
    return {"preset": "image-classification", "resize": "shortest", "size": (256,), "top_k": 1, **_IMAGENET}


def _yolo(args: dict[str, Any]) -> dict[str, Any]:
    args.pop("output_format", None)
    if args.pop("output_as_image", True):
        raise _bad("yolo_detection", "an image with boxes drawn on it is not made here: give output_as_image = false")
    values: dict[str, Any] = {"preset": "object-detection", "score_threshold": 0.67}
    if count := args.pop("num_classes", 80):
        values["labels"] = tuple(str(number) for number in range(int(count)))
    if size := args.pop("input_shape", None):
        values["size"] = tuple(size)
    return values


def _bert(args: dict[str, Any]) -> dict[str, Any]:
    tokenizer = str(args.pop("tokenizer_type", "BertTokenizer")).rpartition(".")[2]
    task = str(args.pop("task_type", "")).rpartition(".")[2]
    if tokenizer != "BertTokenizer" or task not in _TASKS:
        raise _bad("transformers_and_bert", f"{tokenizer} for {task or 'no task_type'}: write it with pre and post")
    return {"preset": _TASKS[task], "vocabulary": args.pop("vocab_file", None), "lower_case": True}


def _whisper(args: dict[str, Any]) -> dict[str, Any]:
    args.pop("skip_special_tokens", None)
    if str(args.pop("model_name", "")) or not args.pop("use_audio_decoder", True):
        raise _bad("whisper", "the encoder's features are made here; generation stays outside the model")
    return {"preset": "speech"}


def _bad(command: str, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-step-list",
        f"tool_command {command} cannot be taken over",
        cause,
        "give a preset, or lists pre and post",
        PACKAGE,
    )
