"""A run that was made before is served from the cache: with the time of the first, and without opening a session."""

from __future__ import annotations

import json
import subprocess
import sys

from optim._engine.cli.main import main
from optim_testing import models

AGAIN = """
import sys
from optim.__main__ import main
main(sys.argv[1:])
print([name for name in ("onnxruntime", "torch", "sympy.core") if name in sys.modules], file=sys.stderr)
"""


def test_it_keeps_how_long_the_first_took_and_imports_no_runtime(tmp_path, monkeypatch, jobs_here, capsys):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    model = str(models.mlp(tmp_path))
    words = ["run", model, "--search-seconds", "1", "--stage", "post-process", "--json"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    first = json.loads(capsys.readouterr().out)
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, *words, "-o", tmp_path / "again"], capture_output=True, text=True, check=True
    )
    again = json.loads(done.stdout)
    assert (first["cached"], again["cached"]) == (False, True)
    assert again["first_seconds"] >= first["seconds"] > 0
    assert done.stderr.splitlines()[-1] == "[]"
    assert (tmp_path / "again" / "model.onnx").read_bytes() == (tmp_path / "out" / "model.onnx").read_bytes()
