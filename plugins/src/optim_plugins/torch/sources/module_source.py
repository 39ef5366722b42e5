"""Modules of the user's own as sources: inputs from examples, memory from ``--state``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from optim import OptimError, Source, SourceRequest, TensorInfo, Trial, TrialStep
from optim.arrays import Array
from optim.errors import describe_exception, unknown_name
from optim_plugins.torch.arguments.argument_tree import Arguments, bind, named_tensors, take_apart
from optim_plugins.torch.arguments.dimension_symbols import named_shapes
from optim_plugins.torch.arguments.flat_module import FlatModule, component_of, run_flat, to_array
from optim_plugins.torch.arguments.inferred_shapes import Shapes, infer_shapes, padded, resized
from optim_plugins.torch.arguments.named_dimensions import with_named_dimensions
from optim_plugins.torch.arguments.state_arguments import StateArguments, find_state
from optim_plugins.torch.sources.call_factory import Made
from optim_plugins.torch.tracebacks import user_line


class CallModule(FlatModule):
    """A module called with its own, nested arguments.

    Attributes:
        renamed: by a name of its own, the name that the graph has for an input or output.
    """

    def __init__(
        self, module: torch.nn.Module, arguments: Arguments, state: StateArguments, renamed: Mapping[str, str]
    ) -> None:
        super().__init__(module, [renamed.get(name, name) for name in arguments.tensors()])
        self.arguments = arguments
        self.state = state
        self.renamed = renamed

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Put the arguments together, and take apart what comes back."""
        named = self.named(tensors)
        return tuple(named[name] for name in self.output_names)

    def named(self, tensors: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Outputs by name; new state is called after the input that takes it."""
        found = self.module(**self.arguments.call(dict(zip(self.arguments.tensors(), tensors, strict=True))))
        rest, carried = self.state.split(found)
        outputs = {**(named_tensors(rest, "output") if rest is not None else {}), **carried}
        return {self.renamed.get(name, name): tensor for name, tensor in outputs.items()}


def module_source(made: Made, request: SourceRequest) -> Source:
    """One component ``model``; a model of transformers without an example of its own is taken as one from a folder.

    Raises:
        OptimError[factory-no-example]: nothing is known of the inputs.
        OptimError[source-does-not-run]: the module refuses its own example.
        OptimError[source-option-unused]: a task is named; or other names, of a model of transformers.
        OptimError[unknown-input]: another name is given to what the module does not have.
    """
    if not made.examples:
        if _is_transformers(made.module):
            if request.rename:
                raise OptimError.usage(
                    "source-option-unused",
                    "--rename is for modules that come with an example",
                    f"{request.spec} gives a model of transformers, whose task names its inputs and outputs",
                    "leave --rename out, or return (module, example)",
                )
            from optim_plugins.torch.sources.huggingface.task_sources import huggingface_source

            return huggingface_source(made.module, request)
        raise OptimError.usage(
            "factory-no-example",
            f"{request.spec} gives no example inputs",
            "what the module takes can only be seen from an example",
            "return (module, (tensor, ...)), or (module, [example, example]) with two shapes",
        )
    if request.task:
        raise OptimError.usage(
            "source-option-unused",
            "--task is for models of transformers",
            f"{request.spec} gives a module of its own",
            "leave --task out",
        )
    return _Maker(made, request).source()


class _Maker:
    """Finds out what a module takes and returns by running it."""

    def __init__(self, made: Made, request: SourceRequest) -> None:
        self.request = request
        self.random = np.random.default_rng(request.seed)
        examples = [bind(made.module, example) for example in made.examples]
        state, examples = self._with_runs(find_state, made.module, examples, request.state)
        self.module = CallModule(made.module, take_apart(examples[0]), state, request.rename).eval()
        self.state = state.renamed(request.rename)
        self.examples = [self._arrays(example) for example in examples]
        self._with_runs(self._name_outputs)
        self._require_names()

    def source(self) -> Source:
        """The component with its dimensions, example and trials."""
        first = self.examples[0]
        shapes = infer_shapes(self.examples, self.state.growing)
        plain = [TensorInfo(name, array.dtype.name, shapes.of(name)) for name, array in first.items()]
        inputs = with_named_dimensions(plain, first, self.request)
        shapes = shapes.laid_under(inputs, self.examples)
        example = self._resized(inputs, shapes.example_sizes())
        sizes, other = shapes.sizes(1), shapes.sizes(2)
        outputs = self._outputs(inputs, example, sizes, other)
        carried = {name: taker for name, taker in self.state.carried.items() if name in self.module.output_names}

        def trials() -> Iterator[Trial]:
            return self._trials(inputs, shapes)

        component = component_of("model", self.module, inputs, outputs, example, trials, carried)
        decoder = bool(carried) and "input_ids" in first
        return Source(self.request, (component,), {"kind": "decoder" if decoder else "module", "state": carried})

    def _trials(self, inputs: list[TensorInfo], shapes: Shapes) -> Iterator[Trial]:
        for index, arrays in enumerate(self.examples):
            yield Trial(f"example {index + 1}", (TrialStep(arrays),))
        state = set(self.state.carried.values())
        for index in (1, 2, 3) if shapes.symbols() else ():
            sizes = shapes.sizes(index)
            said = ", ".join(f"{name} {size}" for name, size in sizes.items())
            yield Trial(said, (TrialStep(self._resized(inputs, sizes)),))
        if state:
            empty = self._resized(inputs, shapes.sizes(1, empty=shapes.past()))
            steps = [TrialStep(empty)]
            for _ in range(3):
                fresh = self._resized(inputs, shapes.sizes(1, empty=shapes.past()))
                steps.append(TrialStep({name: array for name, array in fresh.items() if name not in state}))
            yield Trial("no memory, then three steps", tuple(steps))

    def _outputs(
        self, inputs: list[TensorInfo], example: Mapping[str, Array], sizes: Mapping[str, int], other: Mapping[str, int]
    ) -> list[TensorInfo]:
        """Outputs with named dimensions, where the module runs on the sizes that tell."""
        names = self.module.output_names
        try:
            first = run_flat(self.module, self._resized(inputs, sizes))
            second = run_flat(self.module, self._resized(inputs, other))
        except Exception:  # sizes that do not fit together; the trials will tell
            found = run_flat(self.module, self.examples[0])
            return [TensorInfo(name, found[name].dtype.name, None) for name in names]
        return named_shapes(names, first, second, sizes, other)

    def _resized(self, inputs: list[TensorInfo], sizes: Mapping[str, int]) -> dict[str, Array]:
        first = self.examples[0]
        return {info.name: padded(info.name, resized(first[info.name], info, sizes, self.random)) for info in inputs}

    def _arrays(self, example: Mapping[str, Any]) -> dict[str, Array]:
        tensors, own = take_apart(example).tensors(), self.module.arguments.tensors()
        if list(tensors) != list(own):
            raise OptimError(
                "example-does-not-fit",
                "the examples do not have the same inputs",
                f"one has {', '.join(own)}, another {', '.join(tensors)}",
                "give every example the same structure",
            )
        return {name: to_array(tensor) for name, tensor in zip(self.module.names, tensors.values(), strict=True)}

    def _name_outputs(self) -> None:
        with torch.inference_mode():
            found = self.module.named(list(self.module.arguments.tensors().values()))
        self.module.output_names = tuple(found)

    def _require_names(self) -> None:
        """Every name that the user changes is one of the module's, and no two are the same afterwards."""
        renamed = self.module.renamed
        names = (*self.module.names, *self.module.output_names)
        for old, new in renamed.items():
            if new not in names or old in names:
                own = {new: old for old, new in renamed.items() if new in names}
                raise unknown_name(
                    "input", old, (own.get(name, name) for name in names), fix="correct the name in --rename"
                )
        if twice := [name for name in names if names.count(name) > 1]:
            raise OptimError.usage(
                "bad-source-option",
                f"two inputs or outputs would be called '{twice[0]}'",
                "a graph has one value of a name",
                "give --rename another name",
            )

    def _with_runs(self, function: Any, *arguments: Any) -> Any:
        """Call something that runs the user's module; what that raises is the user's."""
        try:
            return function(*arguments)
        except OptimError:
            raise
        except Exception as error:
            place = user_line(error)
            raise OptimError(
                "source-does-not-run",
                f"the module of {self.request.spec} fails on its own example",
                describe_exception(error) + (f"\n{place}" if place else ""),
                "call module(*example) by hand; it must work",
            ) from error


def _is_transformers(module: Any) -> bool:
    try:
        from transformers import PreTrainedModel
    except ImportError:
        return False
    return isinstance(module, PreTrainedModel)
