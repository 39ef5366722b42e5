"""What a layout misses of a Hugging Face folder, in words."""

from __future__ import annotations

import json
from pathlib import Path

from optim.layout import TOKENIZERS
from optim.source import CONFIG_FILE


def missing_config(files: Path | None) -> str:
    """Returns why there is no ``config.json`` that can be read; empty where there is one."""
    if files is None:
        return f"it needs {CONFIG_FILE}, and no folder with it was given"
    if not (files / CONFIG_FILE).is_file():
        return f"it needs {CONFIG_FILE}, and {files} has none"
    try:
        table = isinstance(json.loads((files / CONFIG_FILE).read_text(encoding="utf-8")), dict)
    except (OSError, ValueError, RecursionError) as error:
        return f"{files / CONFIG_FILE} cannot be read: {error}"
    return "" if table else f"{files / CONFIG_FILE} cannot be read: it is not a table"


def missing_tokenizer(files: Path | None) -> str:
    """Returns why there is no tokenizer; empty where there is one."""
    if files is None:
        return "it needs a tokenizer, and no folder with it was given"
    there = any((files / name).is_file() for name in TOKENIZERS)
    return "" if there else f"it needs a tokenizer ({', '.join(TOKENIZERS[:3])}, ...), and {files} has none"
