"""A plugin of which nearly every pass does something that it must not; one alone is good.

The passes of the fuse stage are alternatives, so that each is tried on the original itself.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

import numpy as np
import onnx_ir as ir
from timed_models import without_group

from optim import APPLICABLE, Applicable, NoOptions, Pass, PassOptions, PassResult, hookimpl
from optim.model import SessionConfig, TensorInfo
from optim.onnx.external_data import external_files
from optim.onnx.files import save_in_store
from optim.passes import Interface, Role

OPTIM_HOOK_API = 1

PASSES: list[type[Pass]] = []
TUNE: list[type[Pass]] = []


class Untrusted(Pass):
    """Every subclass is offered."""

    alternatives = "untrusted"

    def __init_subclass__(cls) -> None:
        words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__)
        cls.name, cls.summary = f"untrusted.{words[1:]}", "not to be trusted"
        (TUNE if cls.session_only else PASSES).append(cls)

    def applicable(self, model, target):
        return APPLICABLE

    def apply(self, model, options, context):
        graph = model.ir()
        interface = self.damage(graph)
        return PassResult(context.save(graph, model), True, interface=interface)

    def damage(self, graph):
        raise NotImplementedError


def shout():
    print('{"result": "from print"}', flush=True)
    os.write(1, b'{"error": {}}\n')
    print("to stderr", file=sys.stderr)


def node_named(graph, name):
    return next(node for node in graph.graph if node.name == name)


def rename_outputs(graph, **names):
    for output in graph.graph.outputs:
        output.name = names.get(output.name, output.name)


# Good, though noisy.


class Printing(Untrusted):
    def applicable(self, model, target):
        shout()
        return APPLICABLE

    def damage(self, graph):
        shout()
        without_group(graph, "a")


class RightInterface(Untrusted):
    """Renames outputs, says so, and is faster."""

    def damage(self, graph):
        without_group(graph, "b")
        rename_outputs(graph, y="renamed")
        return Interface(outputs="lane_interfaces:rename", parameters={"renamed": "y"})


# Breaks down.


class Raising(Untrusted):
    def apply(self, model, options, context):
        raise RuntimeError("no idea what to do")


class FillingTheDisk(Untrusted):
    role = Role.REQUESTED

    def apply(self, model, options, context):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "weights")


class Sizes(PassOptions):
    size: int = 1


class InventingInputs(Untrusted):
    role = Role.REQUESTED
    options = Sizes

    def inputs_for(self, options, model):
        return (TensorInfo("invented", "float32", (options.size,)),)


class Aborting(Untrusted):
    def apply(self, model, options, context):
        os.abort()


class Exiting(Untrusted):
    def apply(self, model, options, context):
        sys.exit(0)


class Leaving(Untrusted):
    def apply(self, model, options, context):
        os._exit(0)


class Hanging(Untrusted):
    def apply(self, model, options, context):
        time.sleep(600)


class ApplicableRaising(Untrusted):
    def applicable(self, model, target):
        return {}["missing"]


class ApplicableAborting(Untrusted):
    def applicable(self, model, target):
        os.abort()


class CandidatesExiting(Untrusted):
    def candidates(self, model, target, context):
        sys.exit(0)


class Littering(Untrusted):
    def apply(self, model, options, context):
        (context.store / "litter.onnx").write_bytes(b"no graph")
        (context.store / "litter.txt").write_text("no model at all")
        (context.scratch / "large").write_bytes(b"x" * 1000)
        os.abort()


# Hands back what it must not.


class NoResult(Untrusted):
    def apply(self, model, options, context):
        return None


class OddNotes(Untrusted):
    def apply(self, model, options, context):
        return PassResult(model, False, notes=7)


class ApplicableTrue(Untrusted):
    def applicable(self, model, target):
        return True


class OddReason(Untrusted):
    def applicable(self, model, target):
        return Applicable(False, 7)


class CandidatesNone(Untrusted):
    def candidates(self, model, target, context):
        return None


class SayingChanged(Untrusted):
    def apply(self, model, options, context):
        return PassResult(model, True)


class ForgedDigest(Untrusted):
    def apply(self, model, options, context):
        from dataclasses import replace

        return PassResult(replace(model, digest="0" * 64), True)


class Elsewhere(Untrusted):
    def apply(self, model, options, context):
        return PassResult(save_in_store(model.ir(), context.scratch), True)


class Invalid(Untrusted):
    def damage(self, graph):
        node_named(graph, "y_end").replace_input_with(0, ir.Value(name="made_by_nobody"))


class Refused(Untrusted):
    """The checker knows nothing of the domain, and the runtime has no such operator."""

    def damage(self, graph):
        node = node_named(graph, "y_end")
        node.domain, node.op_type = "com.microsoft", "NoSuchKernel"
        graph.opset_imports["com.microsoft"] = 1


# Changes the model that it was given.


class MutatingGraph(Untrusted):
    def apply(self, model, options, context):
        with model.path.open("ab") as stream:
            stream.write(b"\n")
        return super().apply(model, options, context)

    def damage(self, graph):
        without_group(graph, "a")


class MutatingWeights(Untrusted):
    def apply(self, model, options, context):
        with Path(model.path.parent, external_files(model.path)[0]).open("r+b") as stream:
            stream.write(b"\0" * 1000)
        return PassResult(model, False, ("nothing to do",))


class MutatingAndRaising(Untrusted):
    def apply(self, model, options, context):
        Path(model.path.parent, external_files(model.path)[0]).write_bytes(b"gone")
        raise RuntimeError("covered its tracks")


class DeletingInput(Untrusted):
    def applicable(self, model, target):
        model.path.unlink()
        return Applicable.no("nothing to see here")


# Wrong outputs.


class ZeroingWeight(Untrusted):
    """Says that it is lossless, and is fast."""

    def damage(self, graph):
        without_group(graph, "a")
        weight = graph.graph.initializers["useful_1_weight"]
        weight.const_value = ir.tensor(np.zeros_like(weight.const_value.numpy()), name=weight.name)


class MakingNan(Untrusted):
    def damage(self, graph):
        graph.graph.initializers["zero"].const_value = ir.tensor(np.float32(np.nan), name="zero")


class SwappingOutputs(Untrusted):
    def damage(self, graph):
        first, second = graph.graph.outputs
        first.name, second.name = second.name, first.name


class WrongInterface(Untrusted):
    """The names come out right, the values behind them do not."""

    def damage(self, graph):
        rename_outputs(graph, y="left", z="right")
        return Interface(outputs="lane_interfaces:rename", parameters={"left": "z", "right": "y"})


class ForgottenInterface(Untrusted):
    def damage(self, graph):
        rename_outputs(graph, y="renamed")


class MissingInterface(Untrusted):
    def damage(self, graph):
        rename_outputs(graph, y="renamed")
        return Interface(outputs="lane_interfaces:no_such_function")


class Lossy(Untrusted):
    """Twenty per cent of noise."""

    lossy = True

    def damage(self, graph):
        without_group(graph, "a")
        weight = graph.graph.initializers["useful_1_weight"]
        array = weight.const_value.numpy()
        noise = np.random.default_rng(0).standard_normal(array.shape).astype(array.dtype) * array.std()
        weight.const_value = ir.tensor(array + np.float32(0.2) * noise, name=weight.name)


# Right, and slower.


class Slower(Untrusted):
    """Twice the work, to no effect."""

    def damage(self, graph):
        end, zero = node_named(graph, "y_end"), graph.graph.initializers["zero"]
        current = graph.graph.inputs[0]
        for layer in range(16):
            weight = graph.graph.initializers[f"a_{layer % 6}_weight"]
            nodes = [ir.node("MatMul", [current, weight])]
            nodes.append(ir.node("Relu", [nodes[-1].outputs[0]]))
            graph.graph.insert_before(end, nodes)
            current = nodes[-1].outputs[0]
        nodes = [ir.node("Mul", [current, zero])]
        nodes.append(ir.node("Add", [end.inputs[0], nodes[-1].outputs[0]]))
        graph.graph.insert_before(end, nodes)
        end.replace_input_with(0, nodes[-1].outputs[0])


# Settings that are more than settings.


class TuneChangingGraph(Untrusted):
    session_only = True

    def candidates(self, model, target, context):
        return [NoOptions()]

    def damage(self, graph):
        without_group(graph, "a")


class TuneUnknownSetting(Untrusted):
    session_only = True

    def apply(self, model, options, context):
        return PassResult(model.with_session(SessionConfig({"no_such_setting": 1})), True)


@hookimpl
def optim_fuse(target):
    return PASSES


@hookimpl
def optim_tune(target):
    return TUNE
