"""What a Hugging Face folder has beside its weights: config, tokenizer, and how sentence-transformers pools."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

CONFIG = "config.json"
TOKENIZER_PARTS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "source.spm",
    "target.spm",
)
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
"""One of them makes ids of a text, as transformers calls them."""

NAMES = (
    CONFIG,
    *TOKENIZERS,
    *TOKENIZER_PARTS,
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
)
"""Files that are taken along; weights are in the graph."""

HEAD = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
"""What sentence-transformers does with the outputs of a graph."""

POOLING = "[0-9]_*"
"""Folders of sentence-transformers' modules, e.g. ``1_Pooling``."""

_LARGEST_MODULE = 100 << 20
"""A dense layer of sentence-transformers has some megabytes; what is larger is no module of a head."""


def carry(files: Path, folder: Path, *, head: bool = True) -> list[str]:
    """Copy what belongs to a model, and is not its weights.

    Args:
        files: a Hugging Face folder; links in it are followed, as in the cache of the hub.
        folder: where to.
        head: what sentence-transformers does behind the graph too.

    Returns:
        Names of what was copied.
    """
    copied = _copied((*NAMES, *(HEAD if head else ())), files, folder)
    for module in sorted(files.glob(POOLING)) if head else ():
        for file in sorted(module.iterdir()) if module.is_dir() else ():
            if file.is_file() and file.stat().st_size <= _LARGEST_MODULE:
                (folder / module.name).mkdir(exist_ok=True)
                shutil.copyfile(file, folder / module.name / file.name)
                copied.append(f"{module.name}/{file.name}")
    return copied


def carry_tokenizer(files: Path, folder: Path) -> None:
    """Copy the tokenizer alone; what lies there already is the same one."""
    if files != folder:
        _copied((*TOKENIZERS, *TOKENIZER_PARTS), files, folder)


def _copied(names: Iterable[str], files: Path, folder: Path) -> list[str]:
    there = [name for name in names if (files / name).is_file()]
    for name in there:
        shutil.copyfile(files / name, folder / name)
    return there


def missing_config(files: Path | None) -> str:
    """Returns why there is no ``config.json`` that can be read; empty where there is one."""
    if files is None:
        return f"it needs {CONFIG}, and nobody named the folder that has it"
    if not (files / CONFIG).is_file():
        return f"it needs {CONFIG}, and {files} has none"
    try:
        table = isinstance(json.loads((files / CONFIG).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError, RecursionError) as error:
        return f"{files / CONFIG} cannot be read: {error}"
    return "" if table else f"{files / CONFIG} cannot be read: it is no table"


def missing_tokenizer(files: Path | None) -> str:
    """Returns why there is no tokenizer; empty where there is one."""
    if files is None:
        return "it needs a tokenizer, and nobody named the folder that has it"
    there = any((files / name).is_file() for name in TOKENIZERS)
    return "" if there else f"it needs a tokenizer ({', '.join(TOKENIZERS[:3])}, ...), and {files} has none"
