"""A pass by declaration: a rewrite rule of onnxscript, with a name and an example, and no class."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from optim.passes import APPLICABLE, Applicable, Pass, PassResult, Role

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from optim.context import Context
    from optim.model import Model
    from optim.options import PassOptions
    from optim.target import Target

Example: TypeAlias = "Mapping[str, Sequence[int | str] | int | float] | Callable[[], onnx.ModelProto]"
"""What the pattern is given where it is tested: shapes of its float inputs, numbers for its attributes; or a model."""


def rewrite_pass(
    name: str,
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    *,
    example: Example,
    summary: str = "",
    check: Callable[..., Any] | None = None,
    role: Role = Role.IMPROVE,
    **attributes: Any,
) -> type[RewritePass]:
    """Makes a pass that replaces each match of a pattern.

    Args:
        name: name of the pass.
        pattern: pattern of onnxscript: ``pattern(op, x, ...)``. It only matches nodes without further attributes,
            unless the pattern has ``_allow_other_attributes=True``.
        replacement: replacement of a match, with the same arguments.
        example: example that ``PassConformance`` of optim_testing tries the pass on.
        summary: one line; by default the pattern and its replacement.
        check: decides whether a match may be replaced, as in onnxscript: ``check(context, x, ...)``.
        role: tests that the gate applies to the pass.
        attributes: further attributes of ``optim.Pass``, e.g. ``lossy=True``.
    """
    text = summary or f"rewrites {_written(pattern)} as {_written(replacement)}"
    parts = {"pattern": pattern, "replacement": replacement, "check": check, "example": example}
    held = {key: staticmethod(part) if callable(part) else part for key, part in parts.items()}
    class_name = name.partition(".")[2].title().replace("-", "")
    said = {"name": name, "summary": text, "role": role, "__module__": pattern.__module__}
    return type(class_name, (RewritePass,), {**held, **attributes, **said})


class RewritePass(Pass):
    """A pass of ``rewrite_pass``.

    Attributes:
        pattern: pattern to find.
        replacement: replacement of a match.
        check: decides whether a match may be replaced; None: always.
        example: example for tests.
    """

    pattern: ClassVar[Callable[..., Any]]
    replacement: ClassVar[Callable[..., Any]]
    check: ClassVar[Callable[..., Any] | None]
    example: ClassVar[Example]

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Decides whether the pattern matches, and gives the reason of the nearest miss."""
        count, miss = self._rewrite(model.ir())
        return APPLICABLE if count else Applicable.no(miss)

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Replaces each match."""
        graph = model.ir()
        count, miss = self._rewrite(graph)
        if not count:
            return PassResult(model, False, (miss,))
        return PassResult(context.save(graph, model), True, counts={"matches replaced": count})

    def _rewrite(self, graph: ir.Model) -> tuple[int, str]:
        """How many matches were replaced, in place; if none, why."""
        from onnx_ir.passes.common import RemoveUnusedNodesPass
        from onnxscript.rewriter import pattern as rewriter

        @functools.wraps(self.pattern)
        def strict(op: Any, *values: Any) -> Any:
            return self.pattern(_Strict(op), *values)

        rules = rewriter.RewriteRuleSet([rewriter.RewriteRule(strict, self.replacement, self.check)], commute=True)
        if count := rules.apply_to_model(graph):
            RemoveUnusedNodesPass()(graph)
            return count, ""
        tracer = rewriter.MatchingTracer()
        rules.apply_to_model(graph, tracer=tracer)
        misses = [miss for some in tracer.best_matches_map.values() for miss in some]
        best = max(misses, key=lambda miss: miss.score(), default=None)
        if best is None:
            return 0, f"the graph has nothing like {_written(self.pattern)}"
        node, as_near = best.root_node, [miss for miss in misses if miss.score() == best.score()]
        reasons = [miss.match_result.reason for miss in as_near if miss.root_node is node]
        why = " or ".join(dict.fromkeys(reason or "its check refuses it" for reason in reasons))
        return 0, f"nearest at {node.name or node.outputs[0].name} ({node.op_type}): {why}"


class _Strict:
    """The builder of a pattern, whose nodes have no other attributes than the pattern says."""

    def __init__(self, op: Any) -> None:
        self._op = op

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        return functools.partial(getattr(self._op, operator), _allow_other_attributes=False)


class _Words:
    """A builder that writes down what it is asked for."""

    def __getattr__(self, operator: str) -> Callable[..., str]:
        def written(*inputs: Any, **attributes: Any) -> str:
            said = (f"{key}={value}" for key, value in attributes.items() if not key.startswith("_"))
            return f"{operator}({', '.join([*map(str, inputs), *said])})"

        return written


def _written(function: Callable[..., Any]) -> str:
    """A pattern as one expression."""
    import inspect

    return str(function(_Words(), *list(inspect.signature(function).parameters)[1:]))
