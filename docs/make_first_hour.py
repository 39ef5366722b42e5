"""Runs what a newcomer types in the first hour, and keeps what they see.

    python docs/make_first_hour.py

Each command runs on a terminal of 80 columns, in a fresh folder with a small model; the page shows what stands there in
the end. Figures are of the machine that made it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from pathlib import Path

PAGE = Path(__file__).with_name("first-hour.md")
COLUMNS = 80
STEPS = (
    ("What is in this model?", "optim inspect encoder.onnx"),
    ("Make it fast", "optim run encoder.onnx -o out --search-seconds 20"),
    ("Is it still the same?", "optim verify encoder.onnx out"),
    ("The same where no terminal watches", "optim verify encoder.onnx out | cat"),
    ("How fast is it?", "optim bench encoder.onnx out --seconds 3"),
    ("Take the smallest of what was found", "optim run out --pick smallest -o small"),
    ("Something is misspelt", "optim run encoder.onnx --with ort.quantise-dynamic"),
    ("What does that error mean?", "optim help errors/unknown-pass"),
)
_INTRODUCTION = """# The first hour

What a terminal of 80 columns shows of each step, made by `docs/make_first_hour.py` on two cores of a busy machine.
`encoder.onnx` is a toy of some kilobytes, so that you can repeat it at once; there is little to gain on it. What a real
model gains is in the README.

    python -c "import pathlib; from optim.testing import models; models.encoder(pathlib.Path())"
"""


_PICTURES = """## The report

`demo-run/report.html`, which `make demo` leaves, on a desk and on a telephone of 400 pixels; drawn by
`docs/make_pictures.py` (two cores, AVX512-VNNI).

![The report of a run: verdict, figures, and the plots of what was measured](pictures/report.png)

![The same page on a telephone](pictures/report-400.png)
"""


def shown(command: str) -> str:
    """What stands on a terminal when a command has ended: live lines are gone, colours are left out."""
    return typed(command)[1]


def typed(command: str) -> tuple[int, str]:
    """The exit status of a command, and what stands on a terminal of 80 columns then."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", f"stty cols {COLUMNS} rows 50; exec {command}"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    written = b""
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        written += chunk
    _, ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended), _screen(written.decode())


def _screen(text: str) -> str:
    """The lines that are left of what was written: a line that is erased is gone."""
    lines, row = [""], 0
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\x1b[1A":
            row = max(0, row - 1)
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part and part != "\r" and not part.startswith("\x1b"):
            lines[row] += part
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def main() -> None:
    """Write the page."""
    parts = [_INTRODUCTION]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= {"OPTIM_CACHE_DIR": f"{folder}/cache", "TERM": "xterm"}
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        from optim.testing import models

        models.encoder(Path())
        for title, command in STEPS:
            print(command, flush=True)
            parts.append(f"## {title}\n\n```text\n$ {command}\n{shown(command)}\n```\n")
    parts.append(_PICTURES)
    PAGE.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
