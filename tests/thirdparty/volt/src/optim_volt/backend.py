"""Volt's device, with its own runtime."""

from __future__ import annotations

import importlib.util

from optim import Backend, BackendLimits, Session, Target
from optim.backend import Check
from optim_volt.compiler import PROGRAM, compiled

LOAD = '''"""Opens the compiled program beside it. Needs volt_runtime alone."""

from pathlib import Path

from volt_runtime import Program


def load():
    """A volt_runtime.Program."""
    return Program.load(Path(__file__).resolve().parent / "{file}")
'''


class VoltSession(Session):
    """A program on the device."""

    def __init__(self, program):
        self._program = program

    def run(self, feeds):
        """One run."""
        return self._program.run(feeds)

    @property
    def executed_on(self):
        """All of a program runs on the device."""
        return {"volt-runtime": 1.0}

    def close(self):
        """Leave the device."""
        self._program.close()


class VoltBackend(Backend):
    """Takes one program at a time."""

    name = "volt"
    exclusive = True

    def open(self, model, target):
        """The program that was compiled, or one that is compiled now."""
        from volt_runtime import Program

        program = model.artefacts.get(PROGRAM)
        return VoltSession(Program.load(program) if program else Program(compiled(model)))

    def is_passing(self, error):
        """Another program leaves."""
        return type(error).__name__ == "DeviceBusy"

    def limits(self):
        """Standard operators."""
        return BackendLimits(13, {"": 21})

    def load_script(self, delivery):
        """The program, opened by the runtime alone."""
        program = delivery.model.artefacts.get(PROGRAM)
        return LOAD.format(file=f"model.onnx.{PROGRAM}") if program else ""

    def deliver(self, delivery):
        """A manifest, as Volt's fleet manager takes it, and a look whether the program opens."""
        import json

        from volt_runtime import VERSION, Program

        file = delivery.folder / f"model.onnx.{PROGRAM}"
        if not file.exists():
            return (Check("opens on the device", "skipped", "it was not compiled: --without volt.compile"),)
        Program.load(file).close()
        manifest = {"runtime": VERSION, "program": file.name, "inputs": [info.name for info in delivery.model.inputs]}
        (delivery.folder / "volt.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        return (Check("opens on the device", "passed", f"{file.name} opens in Volt {VERSION}"),)

    def versions(self):
        """Of the runtime."""
        from volt_runtime import VERSION

        return {"volt-runtime": VERSION}


def _missing() -> str | None:
    found = importlib.util.find_spec("volt_runtime") is not None
    return None if found else "the Volt runtime is not installed"


TARGET = Target("volt", "volt", runtime="volt-runtime", device="Volt One", requires=("volt.compile",), probe=_missing)
