"""What was built for NVIDIA's GPUs without one, held against one: a row for each claim, in some minutes.

    python benchmarks/gpu_checks.py --work FOLDER                          # with a GPU; the table is FOLDER/checks.md
    python benchmarks/gpu_checks.py --work FOLDER --only cuda-options tensorrt-options
    python benchmarks/as_gpu.py python benchmarks/gpu_checks.py --work FOLDER --tiny --skip-computed   # without one

Each check is a process of its own with a limit, some at once, so that a crash costs one row; rows are written as they
come. ``chains-*`` applies passes one after another to the models of the benchmark, opens what comes of it on the GPU,
holds it against the CPU's float32 and times it, alone and unsearched: first figures, not the benchmark. Ends with
status 1 where a row does not hold. ``--skip-computed`` leaves out what needs a GPU that computes.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = ("minilm", "gpt2", "llama", "resnet50")
