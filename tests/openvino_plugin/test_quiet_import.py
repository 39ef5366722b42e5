"""What optim runs on OpenVINO sends nothing, and starts no process for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WATCHED = """
import sys
sys.addaudithook(lambda name, of: name in ("os.fork", "subprocess.Popen", "socket.connect") and seen.append(name))
seen = []
import openvino_telemetry
del sys.modules["openvino_telemetry"]
import time
import {module} as plugin
{call}
time.sleep(0.2)
sys.exit(f"{{seen}}" if seen else "openvino" not in sys.modules)
"""


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("optim_openvino.runtime.core", "plugin.core()"),
        ("optim_openvino.quantize.nncf_library", "with plugin.quiet_nncf(): pass"),
    ],
)
def test_importing_openvino_sends_nothing(module, call):
    pytest.importorskip("openvino_telemetry", reason="NNCF brings it")
    program = _WATCHED.format(module=module, call=call)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
