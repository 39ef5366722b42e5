"""A compiled model and its one infer request, which copies neither what it is fed nor what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optim import OptimError, Session
from optim.backend import KernelCount
from optim_openvino.runtime.properties import RUNTIME
from optim_openvino.runtime.refusals import plain

_TOLD = ("layerType", "runtimePrecision", "primitiveType")
_CONSTANT = ("Const", "Constant")
_COMPUTE_NOTHING = ("Input", "Output", "Parameter", "Result")

if TYPE_CHECKING:
    import openvino

    from optim import Model
    from optim.arrays import Array, Feeds, Outputs


class OpenVinoSession(Session):
    """A model on a device of OpenVINO.

    Args:
        compiled: the model.
        model: that it was compiled of; inputs and outputs are known by its names, in its order.
        device: where it should run.
    """

    def __init__(self, compiled: openvino.CompiledModel, model: Model, device: str) -> None:
        self._compiled: openvino.CompiledModel | None = compiled
        self._request: Any = compiled.create_infer_request()
        self._inputs = frozenset(name for port in compiled.inputs for name in port.get_names())
        self._asked = len(compiled.inputs)
        self._made = [(port.element_type, _least_shape(port)) for port in compiled.outputs]
        self._outputs = [info.name for info in model.outputs]
        self._device = device
        self._name = model.path.name

    def run(self, feeds: Feeds) -> Outputs:
        """One run. Each output is memory of its own that OpenVINO writes to, so that nothing is copied.

        Raises:
            OptimError[feeds-missing-input]: the feeds lack an input, for which OpenVINO would take an empty array.
            OptimError[openvino-run]: OpenVINO cannot compute it, because of sizes that do not fit together, say.
        """
        import openvino

        if self._compiled is None or self._request is None:
            raise RuntimeError("the session is closed")
        given = {name: _tensor(array) for name, array in feeds.items() if name in self._inputs}
        if len(given) < self._asked:
            raise self._lacking(given)
        made = [openvino.Tensor(kind, shape) for kind, shape in self._made]
        for number, tensor in enumerate(made):
            self._request.set_output_tensor(number, tensor)
        try:
            self._request.infer(given)
        except RuntimeError as error:
            raise OptimError(
                "openvino-run",
                f"OpenVINO cannot run {self._name} on these samples",
                plain(str(error)),
                "look at the sizes of the samples; --target cpu tells whether onnxruntime runs them",
            ) from error
        return dict(zip(self._outputs, (tensor.data for tensor in made), strict=True))

    def _lacking(self, given: Mapping[str, Any]) -> OptimError:
        ports = self._compiled.inputs if self._compiled is not None else []
        lacking = [port.any_name for port in ports if not port.get_names() & given.keys()]
        names = ", ".join(f"'{name}'" for name in lacking)
        return OptimError(
            "feeds-missing-input",
            f"the samples of {self._name} lack {len(lacking)} of {len(ports)} inputs",
            f"nothing is given for {names}",
            f"add {names} to the samples",
        )

    @property
    def executed_on(self) -> Mapping[str, float]:
        """All nodes run on the device that the compiled model names; another one is told apart."""
        if self._compiled is None:
            raise RuntimeError("the session is closed")
        devices = [str(name) for name in self._compiled.get_property("EXECUTION_DEVICES")]
        wanted = self._device.partition(".")[0]
        if wanted == "AUTO" or all(name.strip("()").partition(".")[0] == wanted for name in devices):
            return {RUNTIME: 1.0}
        return {f"{RUNTIME} on {' and '.join(devices)}": 1.0}

    def kernels(self) -> Sequence[KernelCount]:
        """Of the graph that OpenVINO made of the model, by what a run computes: no inputs, outputs and constants.

        Nor what is made of constants alone, as the weights of a product laid out anew: that is done once.
        """
        from collections import Counter

        if self._compiled is None:
            raise RuntimeError("the session is closed")
        counts: Counter[tuple[str, str, str]] = Counter()
        constant: set[str] = set()
        for node in self._compiled.get_runtime_model().get_ordered_ops():
            read = [value.get_node().friendly_name for value in node.input_values()]
            if read and constant.issuperset(read):
                constant.add(node.friendly_name)
                continue
            told = node.get_rt_info()
            operator, precision, kernel = (str(told[name].value) if name in told else "" for name in _TOLD)
            if operator in _CONSTANT:
                constant.add(node.friendly_name)
            elif operator not in _COMPUTE_NOTHING:
                counts[operator, precision, kernel.removesuffix(f"_{precision}")] += 1
        return tuple(
            KernelCount(*key, count) for key, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        )

    def node_times(self) -> dict[tuple[str, str], float]:
        """Seconds of each node by its name and operator, the mean of all runs so far, of a session that counts.

        OpenVINO counts microseconds: a node of less than one is none of them.
        """
        if self._request is None:
            raise RuntimeError("the session is closed")
        return {
            (info.node_name, info.node_type): info.real_time.total_seconds()
            for info in self._request.profiling_info
            if info.status == info.Status.EXECUTED
        }

    def close(self) -> None:
        """Let the compiled model go."""
        self._request = None
        self._compiled = None


def _least_shape(port: Any) -> Any:
    """Sizes of an output before the first run: its own where they are fixed; else OpenVINO lets it grow."""
    import openvino

    shape = port.partial_shape
    if shape.is_static:
        return port.shape
    return openvino.Shape([0] * (shape.rank.get_length() if shape.rank.is_static else 1))


def _tensor(array: Array) -> Any:
    """An array as OpenVINO reads it: its own memory where that lies in one piece and may be written."""
    import numpy as np
    import openvino

    return openvino.Tensor(np.require(array, requirements=["C", "W"]), shared_memory=True)
