"""The example of a pass by declaration, as a model: the pattern itself, on inputs of the shapes that it names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

_OPSET, _IR_VERSION = 21, 10


def write_example(pattern: Callable[..., Any], example: Any, folder: Path) -> Path:
    """Write the model.

    Args:
        pattern: of the rule.
        example: shapes of its inputs, numbers for its attributes; or what returns a model.
        folder: to write to.
    """
    import onnx

    path = folder / "example.onnx"
    onnx.save(example() if callable(example) else _model(pattern, example), path)
    return path


def _model(pattern: Callable[..., Any], example: Mapping[str, Sequence[int | str] | int | float]) -> onnx.ModelProto:
    from onnx import TensorProto, helper

    nodes = _Nodes()
    names = list(inspect.signature(pattern).parameters)[1:]
    shapes = {name: said for name in names if isinstance(said := example[name], Sequence)}
    made = pattern(nodes, *(name if name in shapes else example[name] for name in names))
    ends = [made] if isinstance(made, str) else list(made)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ends]
    opsets = [helper.make_opsetid(domain, 1 if domain else _OPSET) for domain in sorted({"", *nodes.domains})]
    graph = helper.make_graph(nodes.made, "example", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)


class _Nodes:
    """A builder that makes the nodes of a pattern, with what a pattern says of matching left out."""

    def __init__(self) -> None:
        self.made: list[onnx.NodeProto] = []
        self.domains: set[str] = set()

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        def made(*inputs: Any, _domain: str = "", _outputs: int | Sequence[str] = 1, **attributes: Any) -> Any:
            count = _outputs if isinstance(_outputs, int) else len(_outputs)
            outputs = self._add(operator, [self._value(one) for one in inputs], count, _domain, attributes)
            return outputs[0] if count == 1 else outputs

        return made

    def _add(self, operator: str, inputs: list[str], count: int, domain: str, attributes: dict[str, Any]) -> list[str]:
        from onnx import helper

        self.domains.add(domain)
        outputs = [f"{operator.lower()}_{len(self.made)}_{place}" for place in range(count)]
        said = {key: value for key, value in attributes.items() if not key.startswith("_")}
        name = f"{operator}_{len(self.made)}"
        self.made.append(helper.make_node(operator, inputs, outputs, name=name, domain=domain, **said))
        return outputs

    def _value(self, given: Any) -> str:
        """The name of an input: numbers become constants."""
        from onnx import numpy_helper

        if given is None or isinstance(given, str):
            return given or ""
        array = np.asarray(given)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        return self._add("Constant", [], 1, "", {"value": numpy_helper.from_array(array)})[0]
