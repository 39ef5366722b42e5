"""Files of a layout: the graph, and what a Hugging Face folder has beside its weights (config, tokenizer, pooling).

Run folders keep these files, so that any layout can be made of them later.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optim.errors import OptimError
from optim.layout.contract import Result
from optim.source import CONFIG_FILE, MODULES_FILE

LARGEST_GRAPH = (1 << 31) - (1 << 26)
"""Largest size of a graph with its weights: a message of protobuf has at most 2 GiB, of which nodes may take 64 MiB."""


def place_graph(result: Result, path: Path, *, data_suffix: str = ".data", embed: bool = False) -> Path:
    """Copies the graph of a result, with its weights, to the place that a layout wants.

    The files are copies, because onnx refuses hard links to weights. A graph with external weights is written anew,
    because it names their file.

    Args:
        result: the result.
        path: file of the graph. The call makes its folder.
        data_suffix: suffix of the file of weights, after the name of the graph.
        embed: whether weights go into the graph itself, for consumers that expect one file; not beyond 2 GB.

    Returns:
        ``path``.

    Raises:
        OptimError[external-data-outside]: the graph names a file elsewhere. There are further errors for missing
            weights.
    """
    import onnx

    from optim.onnx.checker import check_external_data
    from optim.onnx.external_data import locations

    graph = onnx.load(result.model.path, load_external_data=False)
    check_external_data(graph, result.model.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = list(locations(graph))
    if not entries:
        shutil.copyfile(result.model.path, path)
        return path
    names = sorted({entry.value for entry in entries})
    if embed and sum((result.model.path.parent / name).stat().st_size for name in names) < LARGEST_GRAPH:
        onnx.save(onnx.load(result.model.path), path)
        return path
    new = {name: f"{path.name}{data_suffix}{f'.{number}' if number else ''}" for number, name in enumerate(names)}
    for name in names:
        shutil.copyfile(result.model.path.parent / name, path.parent / new[name])
    for entry in entries:
        entry.value = new[entry.value]
    path.write_bytes(graph.SerializeToString(deterministic=True))
    return path


def require_provider(result: Result, *, layout: str, providers: tuple[str, ...]) -> None:
    """Refuses a result for a target that the consumer of a layout does not know.

    Args:
        result: the result.
        layout: name of the layout.
        providers: providers of onnxruntime that the consumer can use.

    Raises:
        OptimError[layout-not-for-target]: the layout does not take this target. The error names those that it takes.
    """
    if result.target.provider not in providers:
        raise OptimError.usage(
            "layout-not-for-target",
            f"a result for target {result.target.name} cannot be delivered as {layout}",
            f"it runs on {result.target.runs_on}; {layout} is written for {', '.join(providers)}",
            "optim run MODEL --target cpu --deliver " + layout,
        )


TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
"""Names of tokenizer files in transformers; one of them turns a text into ids."""

TOKENIZER_FILES = (
    *TOKENIZERS,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "source.spm",
    "target.spm",
)
"""All that belongs to a tokenizer."""

_OTHERS = (CONFIG_FILE, "generation_config.json", "preprocessor_config.json", "processor_config.json")
_HEAD = (MODULES_FILE, "sentence_bert_config.json", "config_sentence_transformers.json")
_MODULES = "[0-9]_*"
"""Folders of sentence-transformers' modules, e.g. ``1_Pooling``."""

CARRIED = (*_OTHERS, *TOKENIZER_FILES, *_HEAD, f"{_MODULES}/*.json", f"{_MODULES}/*.safetensors")
"""Patterns of the names of files that ``carry_files`` copies: no pickles among them."""

LARGEST_BYTES = 100 << 20
"""The largest tokenizers have 35 MB, a dense layer of sentence-transformers some: what is larger is weights."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What was copied.

    Attributes:
        names: relative to the folder.
        too_large: what was left out for its size.
    """

    names: tuple[str, ...] = ()
    too_large: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What a user must know of it; else empty."""
        if not self.too_large:
            return ""
        limit = f"{LARGEST_BYTES >> 20} MB"
        return (
            f"{', '.join(self.too_large)} of the source is not kept here, as it has more than {limit}: --files names it"
        )


def carry_files(source: Path, folder: Path, *, head: bool = True, links: bool = True) -> Carried:
    """Copies the files of a model other than graphs and weights.

    Args:
        source: a Hugging Face folder, or a folder with copies of its files.
        folder: folder to copy to. Files that are there already stay.
        head: also copy what sentence-transformers does after the graph.
        links: whether to follow links, as in the cache of the hub.
    """
    names, too_large = [], []
    for name in _there(source, head=head):
        file, copy = source / name, folder / name
        if not file.is_file() or (file.is_symlink() and not links) or copy.exists():
            continue
        if file.stat().st_size > LARGEST_BYTES:
            too_large.append(name)
            continue
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
        names.append(name)
    return Carried(tuple(names), tuple(too_large))


def _there(source: Path, *, head: bool) -> Iterator[str]:
    yield from (*_OTHERS, *TOKENIZER_FILES)
    if head:
        yield from _HEAD
        for module in sorted(source.glob(_MODULES)):
            if module.is_dir() and not module.is_symlink():
                yield from (f"{module.name}/{file.name}" for file in sorted(module.iterdir()))
