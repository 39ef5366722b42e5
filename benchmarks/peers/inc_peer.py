"""neural-compressor on one model, in an environment of its own (plugins-inc/src/optim_inc/requirements.txt).

python benchmarks/peers/inc_peer.py dynamic|static MODEL OUT --calib CALIB.npz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from neural_compressor import quantization
from neural_compressor.config import PostTrainingQuantConfig


class Samples:
    """Samples as neural-compressor takes them: feeds and a label."""

    batch_size = 1

    def __init__(self, path: Path) -> None:
        self._samples: dict[str, dict[str, Any]] = {}
        with np.load(path) as arrays:
            for name in arrays.files:
                number, _, given = name.partition("/")
                self._samples.setdefault(number, {})[given] = arrays[name]

    def __iter__(self) -> Iterator[tuple[dict[str, Any], int]]:
        for sample in self._samples.values():
            yield sample, 0


def main() -> None:
    """Quantize with the library's defaults for the approach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=("dynamic", "static"))
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--calib", type=Path, required=True)
    chosen = parser.parse_args()
    config = PostTrainingQuantConfig(approach=chosen.setting)
    samples = Samples(chosen.calib) if chosen.setting == "static" else None
    made = quantization.fit(str(chosen.model), config, calib_dataloader=samples)
    if made is None:
        raise SystemExit("neural-compressor returned no model")
    made.save(str(chosen.out / "model.onnx"))
    onnx.load(str(chosen.out / "model.onnx"), load_external_data=False)


if __name__ == "__main__":
    main()
