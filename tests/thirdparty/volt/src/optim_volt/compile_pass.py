"""The program is compiled once and lies beside the model."""

from __future__ import annotations

from optim import APPLICABLE, Applicable, Pass, PassResult, Role
from optim_volt.compiler import PROGRAM, compiled, unsupported


class Compile(Pass):
    """Compiles for Volt."""

    name = "volt.compile"
    summary = "Compiles the program that the device runs."
    role = Role.REQUESTED

    def applicable(self, model, target):
        """Where Volt has every operator."""
        if PROGRAM in model.artefacts:
            return Applicable.no("it is compiled already")
        reason = unsupported(model)
        return Applicable.no(f"Volt has no {reason}") if reason else APPLICABLE

    def apply(self, model, options, context):
        """The same graph, and its program."""
        if PROGRAM in model.artefacts:
            return PassResult(model, False, ("it is compiled already",))
        path = context.scratch / PROGRAM
        path.write_text(compiled(model), encoding="utf-8")
        made = context.save(model.ir(), model, artefacts={PROGRAM: path})
        return PassResult(made, True, counts={"programs": 1})
