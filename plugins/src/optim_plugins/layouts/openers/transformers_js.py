"""Opens the layout ``transformers.js``: by the npm package in Node, from this folder alone and without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_PACKAGE = Path("node_modules", "@huggingface", "transformers")
_SECONDS = 240

_PROGRAM = """
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const told = JSON.parse(readFileSync(process.argv[2], "utf8"));
const found = createRequire(told.from + "/x.js").resolve("@huggingface/transformers");
const { AutoModel, Tensor, env } = await import(pathToFileURL(found));
env.allowRemoteModels = false;
const model = await AutoModel.from_pretrained(told.folder);
const arrays = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int32: Int32Array,
  int64: BigInt64Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array,
};
const answers = [];
for (const sample of told.samples) {
  const feeds = {};
  for (const one of sample) {
    const bytes = readFileSync(one.file);
    const whole = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    feeds[one.name] = new Tensor(one.dtype, new arrays[one.dtype](whole), one.shape);
  }
  const outputs = await model(feeds);
  const answer = [];
  for (const name of told.outputs) {
    const value = outputs[name];
    if (value === undefined) throw new Error(`it has no output ${name}: ${Object.keys(outputs)}`);
    const file = `${told.scratch}/${answers.length}.${answer.length}.out`;
    writeFileSync(file, Buffer.from(value.data.buffer, value.data.byteOffset, value.data.byteLength));
    answer.push({ name, dtype: value.type, shape: value.dims, file });
  }
  answers.push(answer);
}
writeFileSync(told.answer, JSON.stringify({ version: env.version, answers }));
"""


def missing() -> str:
    """What is not installed."""
    if shutil.which("node") is None:
        return "Node is not installed"
    return "" if _modules() else "the npm package @huggingface/transformers is not in or above the working folder"


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Run every sample in Node."""
    import numpy as np

    with tempfile.TemporaryDirectory() as scratch:
        asked: list[list[dict[str, Any]]] = []
        for number, sample in enumerate(samples):
            asked.append([])
            for place, (name, array) in enumerate(sample.items()):
                file = Path(scratch, f"{number}.{place}.in")
                file.write_bytes(np.ascontiguousarray(array).tobytes())
                asked[-1].append({"name": name, "dtype": str(array.dtype), "shape": array.shape, "file": str(file)})
        program, request, answer = (Path(scratch, name) for name in ("open.mjs", "request.json", "answer.json"))
        program.write_text(_PROGRAM, encoding="utf-8")
        request.write_text(
            json.dumps(
                {
                    "from": str(_modules()),
                    "folder": str(folder),
                    "outputs": told["outputs"],
                    "samples": asked,
                    "scratch": scratch,
                    "answer": str(answer),
                }
            ),
            encoding="utf-8",
        )
        done = subprocess.run(
            ["node", program, request],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            cwd=_modules(),
            check=False,
        )
        if done.returncode:
            lines = re.findall(r"^(?:\w*Error|\[cause\])\b.*", done.stderr, re.MULTILINE) or done.stderr.splitlines()
            raise RuntimeError(lines[0] if lines else f"Node ended with status {done.returncode}")
        said = json.loads(answer.read_text(encoding="utf-8"))
        outputs = [
            {
                one["name"]: np.frombuffer(Path(one["file"]).read_bytes(), one["dtype"]).reshape(one["shape"])
                for one in row
            }
            for row in said["answers"]
        ]
    return f"@huggingface/transformers {said['version']} in Node", outputs


def _modules() -> Path | None:
    """The folder whose ``node_modules`` has the package: ``OPTIM_NPM_DIR`` of this user, or the working folder."""
    here = Path.cwd()
    named = os.environ.get("OPTIM_NPM_DIR")
    places = [*(sorted(Path(named).glob("*")) if named and Path(named).is_dir() else ()), here, *here.parents]
    return next((place for place in places if (place / _PACKAGE).is_dir()), None)
