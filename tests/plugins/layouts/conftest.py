from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import onnx
import pytest
from filelock import FileLock

import optim
from optim_testing import models

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "layouts"
PACKAGE = "@huggingface/transformers@4.3.1"
WORDS = ["[PAD]", "[UNK]", "the", "cat", "sat"]


@pytest.fixture(scope="session")
def consumers() -> Path:
    """The Python of an environment with the programs that open layouts; made once, and kept in ``.cache``."""
    text = (HERE / "consumers.txt").read_text()
    name = hashlib.sha256(f"{text}{sys.version}{sys.prefix}".encode()).hexdigest()[:12]
    folder, uv = CACHE / name, [sys.executable, "-m", "uv"]
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if not (folder / "installed").is_file():
            subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
            install = [*uv, "pip", "install", "--quiet", "--no-deps", "--python", python]
            subprocess.run([*install, "--requirement", HERE / "consumers.txt"], check=True)
            paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
            Path(paths["purelib"], "tests.pth").write_text(
                "\n".join(p for p in sys.path if p.endswith("site-packages"))
            )
            (folder / "installed").touch()
    return python


@pytest.fixture(scope="session")
def npm():
    """A folder whose ``node_modules`` has the package; installed once, and kept in ``.cache``."""
    folder = CACHE.parent / "npm" / PACKAGE.replace("/", "-")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "installed").is_file():
            folder.mkdir(exist_ok=True)
            quiet = [
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--omit=dev",
            ]  # a script would fetch CUDA's libraries
            command = [shutil.which("npm"), "install", "--prefix", folder, *quiet, PACKAGE]
            subprocess.run(command, check=True, capture_output=True)
            (folder / "installed").touch()
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def encoder_run(tmp_path_factory, cache, jobs_here) -> Path:
    """The folder of a run that left a small encoder as it was."""
    folder = tmp_path_factory.mktemp("run")
    graph = onnx.load(models.encoder(folder))
    graph.graph.output[0].name = graph.graph.node[-1].output[0] = "last_hidden_state"  # as transformers calls it
    onnx.save(graph, folder / "encoder.onnx")
    optim.run(folder / "encoder.onnx", folder / "out", stages=["post-process"], search_seconds=0)
    return folder / "out"


@pytest.fixture(scope="session")
def hub_files(tmp_path_factory) -> Path:
    """What a Hugging Face folder of that encoder has beside its weights, with pooling of sentence-transformers."""
    folder = tmp_path_factory.mktemp("hub")
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }
    special = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "vocab_size": 50}
    sizes = {"num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 64, "pad_token_id": 0}
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    written = {
        "config.json": config | sizes,
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": special,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 32},
        "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
    }
    (folder / "1_Pooling").mkdir()
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def deliver(encoder_run, hub_files):
    """``optim.deliver``, with the encoder and its files where nothing else is said."""

    def call(layout, output, run=encoder_run, files=hub_files, **more):
        return optim.deliver(run, layout, output, files=files, **more)

    return call
