"""The tokenizer of a source: its files go where its graphs go, for a decoder takes the ids that only they make."""

from __future__ import annotations

import shutil
from pathlib import Path

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
)
"""As the tokenizers of transformers call their files."""


def carry_tokenizer(source: Path | None, folder: Path, *, links: bool = False) -> None:
    """Copy the tokenizer's files of one folder to another.

    Args:
        source: a Hugging Face folder, or what an export or a run left; None where there is none.
        folder: where the graphs are written; what lies there under such a name stays.
        links: whether links are followed, as in the cache of Hugging Face: the user named that folder as the model.
    """
    for name in TOKENIZER_FILES if source is not None else ():
        assert source is not None
        file, copy = source / name, folder / name
        if file.is_file() and (links or not file.is_symlink()) and not copy.exists():
            shutil.copyfile(file, copy)
