"""Runs every command of docs/quickstart.md and writes what a terminal shows below it, there and in README.md.

    make demo && .venv/bin/python docs/make_quickstart.py

A command is the first line of a block ```` ```text ````, after ``$``; a block ```` ```python ```` whose first line is
``# NAME.py`` becomes that file. All run in one fresh folder, in which ``make demo`` is the script that it runs. Figures
are of the machine that ran it, so run it where nothing else runs. Takes some four minutes. ``demo-run/`` is kept for
``make_pictures.py``.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import sys
import tempfile
import termios
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = Path(__file__).with_name("quickstart.md")
README = ROOT / "README.md"
COLUMNS = 100
BLOCK = re.compile(r"^```(text|python)\n(\$ |# )(.+)\n((?:.*\n)*?)```$", re.MULTILINE)
IN_README = re.compile(r"(<!-- run:begin -->\n```text\n).*?(```\n<!-- run:end -->)", re.DOTALL)
DEMO = ROOT / "examples" / "minilm" / "demo.py"


def main() -> None:
    """Run the page and write what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["OPTIM_CACHE_DIR"] = str(Path(folder, "cache"))
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        text = BLOCK.sub(lambda block: played(block).replace(f"{folder}/", ""), PAGE.read_text("utf-8"))
        shutil.copytree("demo-run", ROOT / "demo-run", dirs_exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    README.write_text(IN_README.sub(lambda old: old[1] + for_readme(text) + old[2], readme), encoding="utf-8")
    print(f"wrote {PAGE} and {README}")


def played(block: re.Match[str]) -> str:
    """A block of the page with what it shows now; a block of Python is kept in its file."""
    language, _, first, rest = block.groups()
    if language == "python":
        Path(first).write_text(f"# {first}\n{rest}", encoding="utf-8")
        return block[0]
    print(f"$ {first}", flush=True)
    _, seen = typed(command(first))
    return f"```text\n$ {first}\n{seen}\n```"


def command(line: str, *more: str) -> str:
    """What is started for a line of the page."""
    return " ".join([f"python {DEMO}" if line == "make demo" else line, *more])


def for_readme(page: str) -> str:
    """The first run of the page: its command, its verdict, its latency and its size."""
    lines = next(block[4] for block in BLOCK.finditer(page) if block[3] == "make demo").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("$ optim run"))
    verdict = next(i for i, line in enumerate(lines) if line.startswith("improved"))
    end = next(i for i in range(verdict, len(lines)) if not lines[i])
    more = ("start-up ", "batch ", "padding ", "peak ")
    shown = [line for line in lines[verdict:end] if not line.lstrip().startswith(more)]
    kept = next(line for line in lines if "held-out sentences keep" in line)
    return "\n".join([lines[start], *shown, "...", kept]) + "\n"


def typed(line: str) -> tuple[int, str]:
    """The exit status of a command, and what stands on a terminal when it has ended: live lines are gone."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("sh", ["sh", "-c", f"stty cols {COLUMNS} rows 50; {line}"])
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
    return os.waitstatus_to_exitcode(ended), screen(written.decode())


def screen(text: str) -> str:
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


if __name__ == "__main__":
    main()
