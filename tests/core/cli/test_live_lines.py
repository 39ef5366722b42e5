from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

from rich.console import Console

from optim._engine.standing import Standing, Teller, let_stand
from optim.cli_kit.live_lines import LiveLines


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def printed(shown: LiveLines, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(shown)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_clock_ticks_and_what_takes_long_says_for_how_long():
    clock = Clock()
    shown = LiveLines(clock)
    shown("waiting for process 7 (optim on big.onnx)")
    assert shown.lines() == ["0:00  waiting for process 7 (optim on big.onnx)"]
    clock.now = 40.0
    assert shown.lines() == ["0:40  waiting for process 7 (optim on big.onnx), 40 s"]
    shown("timing, after a wait")
    clock.now = 3700.0
    assert shown.lines() == ["1:01:40  timing, after a wait, 61 min"]


def test_the_second_line_says_how_the_search_stands():
    clock = Clock()
    shown = LiveLines(clock)
    told = Teller(shown)
    told.stage("fuse", lambda: 18.2)
    assert shown.lines()[1] == "[----------] 18 s left · stage fuse"
    clock.now = 42.0
    assert shown.lines()[1] == "[######----] 18 s left · stage fuse"
    told.more(12)
    told.trying()
    told.measured(0.42, 0.0123)
    told.measured(0.8, 0.0)  # no better
    so_far = "[######----] 18 s left · best so far: ratio 0.42, drift 0.012"
    assert shown.lines()[1] == f"{so_far} · stage fuse, candidate 1 of 12"
    told.stage("")
    assert shown.lines()[1] == "best so far: ratio 0.42, drift 0.012"


def test_what_is_to_be_read_later_stands_above_them_whole():
    above: list[str] = []
    shown = LiveLines(Clock(), above.append)
    shown("connecting to tls://board:8786")
    let_stand(shown, "tls://board:9000 on board is left out: " + "x" * 90)
    assert above == ["tls://board:9000 on board is left out: " + "x" * 90]
    assert shown.lines() == ["0:00  connecting to tls://board:8786"]
    let_stand(above.append, "to whoever keeps every line")
    assert above[1:] == ["to whoever keeps every line"]


def test_at_80_columns_a_line_is_cut_and_never_broken():
    shown = LiveLines(Clock())
    shown("trying ort.quantize-static " + "x" * 90 + "\x1b[31m")
    shown.hear(Standing("convert-precision", 3, 14, 0.42, 0.0123, lambda: 600.0))
    first, second = printed(shown)
    assert len(first) == len(second) == 80
    assert first.endswith("…")
    assert second.startswith("  [----------] 10 min left · best so far: ratio 0.42, drift 0.012 · stage ")


def test_at_80_columns_it_is_seen_how_long_one_has_waited():
    clock = Clock()
    shown = LiveLines(clock)
    shown("waiting: another optim is timing, process 12345 (optim on encoder-of-sentences.onnx)")
    clock.now = 40.0
    (line,) = printed(shown)
    assert len(line) == 80
    assert "0:40  waiting: another optim is timing, process 12345 (" in line
    assert line.endswith("…, 40 s")


def test_what_a_model_is_called_does_nothing_to_the_terminal():
    shown = LiveLines(Clock())
    shown("reading [bold]\x1b[31m.onnx")
    assert printed(shown)[0].endswith("reading [bold]\\x1b[31m.onnx")


def test_a_plain_function_is_told_lines_only():
    said: list[str] = []
    told = Teller(said.append)
    told.stage("fuse")
    told.measured(0.5, 0.0)
    assert said == []


SCRIPT = """
import time
from optim.cli_kit.live_lines import progress
with progress() as say:
    say("reading m.onnx")
    time.sleep(0.6)
"""


def test_on_a_terminal_the_lines_live_and_are_gone_at_the_end():
    ours, theirs = pty.openpty()
    shown, script = "", SCRIPT.replace("time.sleep(0.6)", "input()")
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    ) as process:
        while shown.count("reading m.onnx") < 2:
            shown += os.read(ours, 65536).decode()
        process.communicate(b"\n")
        assert process.returncode == 0
    os.close(theirs)
    shown += os.read(ours, 65536).decode()
    os.close(ours)
    assert shown.count("reading m.onnx") > 1
    assert shown.endswith("\x1b[2K")  # the line is erased


def test_what_is_piped_is_a_line_for_each_new_thing():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("s] reading m.onnx\n")
    assert done.stderr.count("\n") == 1
