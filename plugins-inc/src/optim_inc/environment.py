"""The environment of neural-compressor 3.7.1, the last release with the ONNX Runtime adaptor."""

from __future__ import annotations

from pathlib import Path

from optim.isolation.isolation import Isolation

ISOLATION = Isolation(
    plugin="inc",
    requirements=(
        "neural-compressor==3.7.1",
        "numpy==1.26.4",  # it needs numpy<2
        "onnx==1.18.0",  # it needs onnx.mapping, gone in 1.19
        "onnxruntime==1.23.2",
        "setuptools==80.9.0",  # it needs pkg_resources, gone in 81
        "six==1.17.0",  # not declared by it
    ),
    jobs=Path(__file__).with_name("jobs.py"),
    python=">=3.11,<3.13",
)
