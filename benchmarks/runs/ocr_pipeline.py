"""Records a pipeline of two models, RapidOCR from its wheel, optimizes it in place, and reads unseen pages with it.

    .cache/bench-env/bin/python benchmarks/runs/ocr_pipeline.py --work FOLDER      # four minutes

``make bench`` makes the environment and the wheels. RapidOCR finds lines (PP-OCRv6 detector), turns and reads them
(recognizer). The calls of eight pages are recorded; eight other pages are read before and after.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import optim

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "models"))
sys.path.append(str(next((ROOT / ".cache" / "bench" / "wheels" / "lib").glob("python3*/site-packages"))))


def main() -> None:
    """Record, optimize, compare."""
    import wheel_cases
    from rapidocr import RapidOCR

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="a new folder for the results")
    folder = parser.parse_args().work
    reader = RapidOCR()
    recorded, unseen = wheel_cases.pages(False), wheel_cases.pages(True)
    reader(recorded[0])  # it opens its models at the first call
    with optim.record(reader, outputs=lambda result: (result.boxes, result.txts)) as recorder:
        for page in recorded:
            reader(page)
    print(recorder, flush=True)
    recorder.restore()
    before, before_s = read(reader, unseen)
    print(recorder.optimize(folder, max_drift=0.1, search_seconds=60), flush=True)
    after, after_s = read(reader, unseen)
    same = [sum(one[part] == other[part] for one, other in zip(before, after, strict=True)) for part in (0, 1)]
    print(f"unseen pages: texts of {same[0]} and boxes of {same[1]} of {len(unseen)} as before")
    print(f"seconds for all of them, fastest of three: {before_s:.2f}, then {after_s:.2f}")


def read(reader: Any, pages: list[Any]) -> tuple[list[tuple[Any, Any]], float]:
    """Texts and boxes of each page, and the seconds of the fastest of three times."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        found = [reader(page) for page in pages]
        took.append(time.perf_counter() - began)
    return [(one.txts, [box.round().tolist() for box in one.boxes]) for one in found], min(took)


if __name__ == "__main__":
    main()
