"""One peer on one model, in a process of its own: what it makes lies in a folder afterwards.

    python benchmarks/peers/peer.py TOOL MODEL OUT --calib CALIB.npz [--type bert --heads 12 --hidden 384]

OUT gets ``model.onnx`` (with its data beside it), and ``session.json`` where the tool is about settings. ``--list``
prints the tools, their labels, and which need calibration data.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tool import Job, Tool


def tools() -> dict[str, Tool]:
    """All peers by name; importing one imports its library only when it runs."""
    import graph_tools
    import quantizers

    return {**graph_tools.TOOLS, **quantizers.TOOLS}


def main() -> int:
    """Run one tool."""
    if "--list" in sys.argv:
        print(json.dumps({name: label for name, (label, _) in tools().items()}))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", choices=sorted(tools()))
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--calib", type=Path, required=True)
    parser.add_argument("--type", default="bert")
    parser.add_argument("--heads", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=0)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    job = Job(
        chosen.model.resolve(), chosen.out.resolve(), chosen.calib.resolve(), chosen.type, chosen.heads, chosen.hidden
    )
    tools()[chosen.tool][1](job)
    if not job.result.is_file():
        raise SystemExit(f"{chosen.tool} ended without an error and without a model")
    return 0


if __name__ == "__main__":
    sys.exit(main())
