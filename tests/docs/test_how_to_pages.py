"""How-to pages, followed word for word in a fresh folder with a model so small that it takes seconds.

Files that a page says to write are written, and its commands are typed in their order. ``hf://ORG/NAME`` is a
repository of a stand-in for the Hugging Face Hub on this machine. Only what installs, serves, or needs what this
machine may lack is left out.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest

from optim_testing import models

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.wide
"""Some minutes: make test-suite follows the pages."""
STEP = re.compile(
    r"^(?:```\w+\n(?:#|//) (?P<file>\w+\.\w+)|Write `(?P<named>\w+\.\w+)`:\n\n```\w+)\n(?P<text>.*?)^```$"
    r"|^ {4,7}(?:\$ )?(?P<command>(?:optim |python \w|node |g\+\+ |LD_LIBRARY_PATH)(?:\\\n|[^\n\\])*)$",
    re.MULTILINE | re.DOTALL,
)
COMMIT = "a" * 40
Ends = Mapping[str, tuple[int, ...]]
LEFT_OUT = (
    *("optim web serve", "--target web", "-o service", "-o small", "PEFT_FOLDER", "--runtime", "SCHEDULER"),
    *("--jobs 2", "-o few-run", "optim run model -o"),
)
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "food",
    "was",
    "cold",
    "a",
    "good",
    "evening",
    "train",
    "to",
    "coast",
]


class Hub(ThreadingHTTPServer):
    """Answers as the Hugging Face Hub does for one public repository ``ORG/NAME`` with the files of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), HubAnswer)
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.server_port}"


class HubAnswer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        file = self.server.folder / self.path.removeprefix(f"/ORG/NAME/resolve/{COMMIT}/")
        if self.path == "/api/models/ORG/NAME/revision/main":
            content = json.dumps({"id": "ORG/NAME", "sha": COMMIT}).encode()
        elif self.path.startswith(f"/api/models/ORG/NAME/tree/{COMMIT}"):
            files = [path for path in sorted(self.server.folder.iterdir()) if path.is_file()]
            entries = [{"type": "file", "path": path.name, "size": path.stat().st_size, "oid": ""} for path in files]
            content = json.dumps(entries).encode()
        else:
            content = file.read_bytes() if file.is_file() else b""
        self.send_response(200 if content else 404)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def _hub(folder: Path) -> Iterator[str]:
    with Hub(folder) as hub:
        threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True).start()
        yield hub.url
        hub.shutdown()


def follow(page: str, folder: Path, source: str = "", ends: Ends = MappingProxyType({})) -> dict[str, str]:
    """Type the commands of a page in ``folder``; what each printed on stdout.

    Args:
        page: of docs/.
        folder: with the files that a user has before.
        source: the folder there that ``hf://ORG/NAME`` has.
        ends: exit statuses that are right, by the words that a command begins with; 0 for all others.
    """
    with _hub(folder / source) as url:
        return _typed(page, folder, url, ends)


def _typed(page: str, folder: Path, hub: str, ends: Ends) -> dict[str, str]:
    environment = {
        **{name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")},
        "OPTIM_CACHE_DIR": str(folder / "cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HF_ENDPOINT": hub,
        "HF_HOME": str(folder / "huggingface"),
    }
    seen = {}
    for step in STEP.finditer((ROOT / "docs" / f"{page}.md").read_text("utf-8")):
        if name := step["file"] or step["named"]:
            (folder / name).write_text(step["text"])
            continue
        line = re.sub("cpu:threads=.", "cpu:threads=1", step["command"]).partition("  #")[0].rstrip()
        if any(words in line for words in LEFT_OUT):
            continue
        if line.startswith("optim run"):
            line = re.sub("--search-seconds [0-9]+", "", line) + " --search-seconds 5"
        line += " --seconds 1" if line.startswith("optim bench") else ""
        done = subprocess.run(
            line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        allowed = next((ends[words] for words in ends if line.startswith(words)), (0,))
        assert done.returncode in allowed, f"{line}\n{done.stdout}\n{done.stderr}"
        seen[line] = done.stdout
    return seen


def tokenizer(folder: Path) -> None:
    """A tokenizer of some words, as a Hugging Face folder has it."""
    hf = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel

    made = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    hf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)


SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": 320,
    "pad_token_id": 0,
}


@pytest.mark.slow
def test_a_hugging_face_model_on_a_cpu_server(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    sizes = {"vocab_size": len(WORDS), "dim": 32, "hidden_dim": 48, "n_layers": 1, "n_heads": 4, "num_labels": 2}
    hf.DistilBertForSequenceClassification(hf.DistilBertConfig(**sizes)).save_pretrained(tmp_path / "classifier")
    tokenizer(tmp_path / "classifier")
    rng = np.random.default_rng(0)
    for name in ("reviews.csv", "held-out.csv"):
        with (tmp_path / name).open("w", newline="") as file:
            rows = [(" ".join(rng.choice(WORDS[4:], 6)), i % 2) for i in range(32)]
            csv.writer(file).writerows([("text", "label"), *rows])
    seen = follow("hugging-face-to-cpu-server", tmp_path, "classifier")
    assert re.fullmatch(r"\[[01] [01]\]", seen["python server.py"].strip())
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["budget"]["metric"] == "top-1"
    assert re.search(
        r": (a loss|a gain) of ", next(text for line, text in seen.items() if line.startswith("optim verify"))
    )


@pytest.mark.slow
def test_a_language_model(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    config = hf.LlamaConfig(**SIZES, num_key_value_heads=2, bos_token_id=2, eos_token_id=3)
    hf.LlamaForCausalLM(config).save_pretrained(tmp_path / "chat")
    tokenizer(tmp_path / "chat")
    rng = np.random.default_rng(0)
    (tmp_path / "texts.txt").write_text("\n\n".join(" ".join(rng.choice(WORDS[4:], 20)) for _ in range(8)))
    seen = follow("llm", tmp_path, "chat")
    assert seen["python try.py"].strip()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["goal"] == "generate"


@pytest.mark.slow
def test_a_vision_model_with_its_steps_inside(tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    pytest.importorskip("onnxruntime_extensions")
    from PIL import Image

    labels = {0: "cat", 1: "dog", 2: "bird"}
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], id2label=labels)
    hf.ResNetForImageClassification(config).save_pretrained(tmp_path / "pets")
    settings = {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 224}, "crop_pct": 0.875}
    (tmp_path / "pets" / "preprocessor_config.json").write_text(
        json.dumps({**settings, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.2, 0.2, 0.2], "resample": 3})
    )
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(0)
    for i in range(4):
        Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize((64, 48)).save(
            tmp_path / "photos" / f"{i}.png"
        )
    seen = follow("vision-browser", tmp_path, "pets")
    assert set(re.findall(r"'(\w+)'", seen["python use.py"])) == set(labels.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # of peft, about itself
def test_adapters(tmp_path: Path) -> None:
    hf, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    config = hf.LlamaConfig(**SIZES, num_key_value_heads=2, bos_token_id=2, eos_token_id=3)
    hf.LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    for name in ("support", "sales"):
        base = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
        lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        peft.get_peft_model(base, lora).save_pretrained(tmp_path / name)
    seen = follow("adapters", tmp_path, "base")
    assert seen["python answer.py"].count("[[") == 3
    assert "sales.onnx_adapter fits" in seen["optim adapters check out sales.onnx_adapter"]


ENCODER = """
<ir_version: 9, opset_import: ["" : 17]>
encoder (int64[batch, sequence] input_ids, int64[batch, sequence] attention_mask, int64[batch, sequence] token_type_ids)
    => (float[batch, sequence, 384] last_hidden_state)
<int64[1] last = {-1}, float[1, 384] weight = {WEIGHT}> {
    mask = Mul (input_ids, attention_mask)
    sum = Add (mask, token_type_ids)
    number = Cast <to = 1> (sum)
    column = Unsqueeze (number, last)
    last_hidden_state = MatMul (column, weight)
}
"""


@pytest.mark.slow
def test_a_result_is_used_from_other_languages(tmp_path: Path) -> None:
    for program in ("npm", "node", "g++"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    weight = ", ".join(f"{number / 384:.4f}" for number in range(384))
    onnx.save(onnx.parser.parse_model(ENCODER.replace("WEIGHT", weight)), tmp_path / "model.onnx")
    names, rng = ("input_ids", "attention_mask", "token_type_ids"), np.random.default_rng(0)
    samples = {f"{i}/{name}": rng.integers(0, 9, (2, 5)) for i in range(4) for name in names}
    np.savez(tmp_path / "samples.npz", **samples)
    # The second package is Unity's: it has what C++ needs, from the one registry that every machine here reaches.
    packages = ["onnxruntime-node@1.30.0", "com.github.asus4.onnxruntime@0.4.9"]
    install = ["npm", "install", "--silent", "--onnxruntime-node-install=skip", *packages]
    subprocess.run(install, cwd=tmp_path, check=True)
    unity = tmp_path / "node_modules" / packages[1].partition("@")[0] / "Plugins"
    (tmp_path / "onnxruntime").mkdir()
    headers = next(unity.rglob("onnxruntime_cxx_api.h")).parent
    (tmp_path / "onnxruntime" / "include").symlink_to(headers)
    shutil.copytree(unity / "Linux" / "x64", tmp_path / "onnxruntime" / "lib")
    (tmp_path / "onnxruntime" / "lib" / "libonnxruntime.so.1").symlink_to("libonnxruntime.so")
    seen = follow("deploy", tmp_path, "")
    shapes = {line: re.findall(r"\d+", seen[line]) for line in seen if re.match("python|node|LD", line)}
    assert len(shapes) == 3 and set(map(tuple, shapes.values())) == {("1", "3", "384")}, shapes
    assert (tmp_path / "models" / "encoder" / "config.pbtxt").is_file()


CHECK = """
import sys, onnx
sys.exit(any(node.op_type == "Softmax" for node in onnx.load(sys.argv[1]).graph.node))
"""


def small_model(folder: Path) -> onnx.ModelProto:
    """``model.onnx`` with node names of the pages, ``samples.npz``, and a ``check.py`` that fails on the model."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((64, 64), np.float32) / 8 for name in "ab"} | {"g": np.ones(64, np.float32)}
    made = (("MatMul", "xa", "h"), ("Softmax", "h", "s"), ("LayerNormalization", "sg", "n"), ("MatMul", "nb", "m"))
    nodes = [
        onnx.helper.make_node(operator, list(read), [written], name=f"{operator}_{number}")
        for number, (operator, read, written) in enumerate((*made, ("LayerNormalization", "mg", "y")), 10)
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 64]) for name in "xy"]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "small", ends[:1], ends[1:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "samples.npz", **{f"{i}/x": rng.standard_normal((4, 64), np.float32) for i in range(8)})
    (folder / "check.py").write_text(CHECK)
    return model


@pytest.mark.slow
def test_my_run_did_not_help(tmp_path: Path) -> None:
    small_model(tmp_path)
    required = (
        "optim run model.onnx -o out --data samples.npz --with"  # fails if the pass makes so small a model slower
    )
    seen = follow("troubleshooting", tmp_path, ends={required: (0, 4)})
    assert len(seen) == 6
    costs = next(text for line, text in seen.items() if line.startswith("optim sensitivity"))
    assert "MatMul_13" in costs


@pytest.mark.slow
def test_which_node_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    model = small_model(tmp_path)
    changed = [node for node in model.graph.node if node.op_type == "LayerNormalization"][-1]
    changed.attribute.append(onnx.helper.make_attribute("epsilon", 1.0))
    onnx.save(model, tmp_path / "changed.onnx")
    seen = follow("diagnosis", tmp_path, ends={"optim verify": (4,), "optim blame": (4,)})
    assert len(seen) == 4
    assert changed.name in next(text for line, text in seen.items() if line.startswith("optim blame"))
    assert (tmp_path / "blame.svg").is_file()


@pytest.mark.slow
def test_many_models(tmp_path: Path) -> None:
    """The plan of the page's file; tests/fleet runs batches and clusters."""
    hf = pytest.importorskip("transformers")
    pytest.importorskip("openvino")
    (tmp_path / "models").mkdir()
    models.mlp(tmp_path / "models")
    hf.BertModel(hf.BertConfig(**SIZES)).save_pretrained(tmp_path / "bert")
    (planned,) = follow("many-models", tmp_path).values()
    assert len(planned.splitlines()) == 1 + 2 * 2 * 3
