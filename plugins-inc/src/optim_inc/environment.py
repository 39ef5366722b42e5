"""The environment of neural-compressor 3.7.1, the last release with the ONNX Runtime adaptor."""

from __future__ import annotations

from pathlib import Path

from optim.isolation import Isolation, read_requirements

ISOLATION = Isolation(
    plugin="inc",
    requirements=read_requirements(Path(__file__).with_name("requirements.txt")),
    jobs=Path(__file__).with_name("jobs.py"),
    python=">=3.11,<3.13",
)
