"""Olive on one model, in Olive's own environment (``requirements-olive.txt``).

    python benchmarks/peers/olive_peer.py TOOL MODEL OUT --calib CALIB.npz

TOOL is one of ``TOOLS``. Olive writes where it likes; the first model found there becomes OUT/model.onnx.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

os.environ["OLIVE_DISABLE_TELEMETRY"] = "1"

PREPARE = {"prepare": {"type": "OnnxPeepholeOptimizer"}}
TOOLS: dict[str, dict[str, Any]] = {
    "olive-optimize": {"optimize": {"type": "OrtTransformersOptimization"}},
    "olive-dynamic": {"quantize": {"type": "OnnxDynamicQuantization"}},
    "olive-static": {"quantize": {"type": "OnnxStaticQuantization", "data_config": "calibration"}},
    "olive-static-best": {
        **PREPARE,
        "quantize": {
            "type": "OnnxStaticQuantization",
            "data_config": "calibration",
            "activation_type": "uint8",
            "precision": "int8",
            "per_channel": True,
        },
    },
    "olive-4-bits": {"quantize": {"type": "OnnxBlockWiseRtnQuantization"}},
}
LABELS = {
    "olive-optimize": "Olive, transformer optimizer",
    "olive-dynamic": "Olive, dynamic int8",
    "olive-static": "Olive, static int8, defaults",
    "olive-static-best": "Olive, static int8, uint8 per channel",
    "olive-4-bits": "Olive, weights in 4 bits",
}


def main() -> int:
    """Run one recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", choices=sorted(TOOLS))
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--calib", type=Path, required=True)
    chosen, _ = parser.parse_known_args()
    import olive

    out, model, calib = chosen.out.resolve(), chosen.model.resolve(), chosen.calib.resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    olive.run(config(TOOLS[chosen.tool], model, calib, out / "work"))
    found = sorted((out / "work").rglob("*.onnx"))
    if not found:
        raise SystemExit("Olive ended without an error and without a model")
    for path in found[0].parent.iterdir():  # external data goes by its name
        target = out / ("model.onnx" if path == found[0] else path.name)
        if path.is_file():
            path.replace(target)
    return 0


def config(passes: dict[str, Any], model: Path, calib: Path, work: Path) -> dict[str, Any]:
    """What ``olive run`` takes."""
    return {
        "input_model": {"type": "ONNXModel", "model_path": str(model)},
        "systems": {
            "here": {
                "type": "LocalSystem",
                "accelerators": [{"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}],
            }
        },
        "data_configs": [
            {
                "name": "calibration",
                "type": "DataContainer",
                "user_script": str(Path(__file__).resolve()),
                "load_dataset_config": {"type": "calibration_samples", "params": {"path": str(calib)}},
                "pre_process_data_config": {"type": "skip_pre_process"},
                "post_process_data_config": {"type": "skip_post_process"},
                "dataloader_config": {"type": "no_auto_batch_dataloader"},
            }
        ],
        "passes": passes,
        "host": "here",
        "target": "here",
        "output_dir": str(work),
        "cache_dir": str(work) + "-cache",
    }


def _register() -> None:
    """Olive imports this file by its path and finds the samples under their registered name."""
    try:
        from olive.data.registry import Registry
    except ImportError:
        return

    @Registry.register_dataset()
    def calibration_samples(data_dir: str = "", path: str = "", **unused: Any) -> list[tuple[dict[str, Any], int]]:
        import numpy as np
        import torch

        samples: dict[str, dict[str, Any]] = {}
        with np.load(path) as arrays:
            for name in arrays.files:
                index, _, feed = name.partition("/")
                if not feed.startswith("label"):
                    samples.setdefault(index, {})[feed] = torch.from_numpy(np.asarray(arrays[name]))
        return [(sample, 0) for sample in samples.values()]


if __name__ == "__main__":
    sys.exit(main())
else:
    _register()
