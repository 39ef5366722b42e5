"""Tasks of Hugging Face models: which class loads one, and how an architecture's name tells its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A task.

    Attributes:
        auto_class: of transformers, that loads a model for it.
        architectures: endings of class names that are for it.
    """

    auto_class: str
    architectures: tuple[str, ...]


TASKS: Mapping[str, Task] = {
    "text-generation": Task("AutoModelForCausalLM", ("ForCausalLM", "LMHeadModel")),
    "text2text-generation": Task("AutoModelForSeq2SeqLM", ("ForConditionalGeneration", "MTModel")),
    "speech-to-text": Task("AutoModelForSpeechSeq2Seq", ("WhisperForConditionalGeneration",)),
    "text-classification": Task("AutoModelForSequenceClassification", ("ForSequenceClassification",)),
    "token-classification": Task("AutoModelForTokenClassification", ("ForTokenClassification",)),
    "question-answering": Task("AutoModelForQuestionAnswering", ("ForQuestionAnswering",)),
    "fill-mask": Task("AutoModelForMaskedLM", ("ForMaskedLM",)),
    "image-classification": Task("AutoModelForImageClassification", ("ForImageClassification",)),
    "speech-recognition": Task("AutoModelForCTC", ("ForCTC",)),
    "audio-classification": Task("AutoModelForAudioClassification", ("ForAudioClassification",)),
    "feature-extraction": Task("AutoModel", ("Model", "")),
}
"""In the order in which endings are compared."""


def task_of(class_name: str, main_input: str, auto_map: Mapping[str, str] | None = None) -> str:
    """The task of a model class.

    Args:
        class_name: e.g. ``BertForSequenceClassification``.
        main_input: of the model, e.g. ``input_ids``; tells speech from text.
        auto_map: of a folder with code of its own, whose classes may have any name: ``AutoModelForCausalLM`` to
            ``modeling_own.Own``.
    """
    declared = {auto for auto, named in (auto_map or {}).items() if str(named).endswith(f".{class_name}")}
    for name, task in TASKS.items():
        if task.auto_class in declared:
            return name
    if class_name.endswith("ForConditionalGeneration") and main_input != "input_ids":
        return "speech-to-text"
    return next(
        name for name, task in TASKS.items() if any(class_name.endswith(ending) for ending in task.architectures)
    )
