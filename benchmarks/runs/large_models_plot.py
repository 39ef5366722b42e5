"""Draws what ``large_models.py`` measured: the memory of the largest process against the size of the model.

    python benchmarks/runs/large_models_plot.py

Reads ``large_models.json`` beside it, which ``large_models.py --keep`` writes, and writes ``docs/large-models.svg``.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
ROWS = HERE / "large_models.json"
PLOT = HERE.parents[1] / "docs" / "large-models.svg"

WIDTH, HEIGHT, MARGIN = 560, 340, 56
MOST_GB, MOST_MEMORY_GB = 4.5, 6.5
ALLOWED = 1.2, 1.0
"""The largest process may hold so many times the model, and so many GB more."""


def place(size_gb: float, memory_gb: float) -> tuple[float, float]:
    """Where a point lies in the picture."""
    across = MARGIN + size_gb / MOST_GB * (WIDTH - 2 * MARGIN)
    return across, HEIGHT - MARGIN - memory_gb / MOST_MEMORY_GB * (HEIGHT - 2 * MARGIN)


def line(points: list[tuple[float, float]], style: str) -> str:
    """A line through points in GB."""
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    return f'<polyline points="{corners}" fill="none" {style}/>'


def text(at: tuple[float, float], said: str, anchor: str = "middle") -> str:
    """Words at a place of the picture."""
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">{said}</text>'


def draw(rows: list[dict[str, float]]) -> str:
    """The whole picture."""
    times, more = ALLOWED
    points = [(row["size_bytes"] / 1e9, row["largest_bytes"] / 1e9) for row in rows]
    parts = [
        line([(0, MOST_MEMORY_GB), (0, 0), (MOST_GB, 0)], 'stroke="#444"'),
        line([(0, more), (MOST_GB, times * MOST_GB + more)], 'stroke="#b33" stroke-dasharray="5 4"'),
        line(points, 'stroke="#1565c0" stroke-width="2"'),
    ]
    for row, point in zip(rows, points, strict=True):
        x, y = place(*point)
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1565c0"/>',
            text((x, y + 20), f"{row['seconds']:.0f} s"),
        ]
    for gb in range(1, 5):
        x, y = place(gb, 0)
        parts.append(text((x, y + 18), f"{gb} GB"))
    for gb in range(1, 7):
        x, y = place(0, gb)
        parts.append(text((x - 8, y + 4), f"{gb} GB", "end"))
    x, y = place(MOST_GB, times * MOST_GB + more)
    parts += [
        text((x, y - 8), f"{times:g} times the model and {more:g} GB", "end"),
        text((WIDTH / 2, HEIGHT - 12), "weights of the model"),
        text((MARGIN, 24), "memory of the largest process, and seconds of the run", "start"),
    ]
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, background, *parts, "</svg>", ""])


if __name__ == "__main__":
    PLOT.write_text(draw(json.loads(ROWS.read_text(encoding="utf-8"))), encoding="utf-8")
