"""``--dynamic``: dimensions as the user names them, laid over what was found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim import OptimError, SourceRequest, TensorInfo
from optim.arrays import Feeds
from optim.errors import unknown_name


def with_named_dimensions(inputs: Sequence[TensorInfo], example: Feeds, request: SourceRequest) -> list[TensorInfo]:
    """Inputs with the dimensions that the user named; an empty name leaves one fixed.

    A name may stand for a whole argument with several tensors: ``mems`` names the dimensions of ``mems.0``, ``mems.1``.

    Raises:
        OptimError[unknown-input]: there is no such input.
        OptimError[dynamic-rank]: another number of dimensions than the input has.
    """
    wanted = dict(request.dynamic)
    found = []
    for info in inputs:
        owner = next((name for name in wanted if info.name == name or info.name.startswith(f"{name}.")), None)
        found.append(info if owner is None else _named(info, wanted[owner], example))
    for name in wanted:
        if not any(info.name == name or info.name.startswith(f"{name}.") for info in inputs):
            raise unknown_name("input", name, (info.name for info in inputs), fix="correct the name in --dynamic")
    return found


def for_components(request: SourceRequest, examples: Sequence[Feeds]) -> list[SourceRequest]:
    """What the user says of dimensions, for each of the components that have those inputs.

    Raises:
        OptimError[unknown-input]: no component has such an input.
    """
    names = [{name.partition(".")[0] for name in example} | set(example) for example in examples]
    known = sorted(set().union(*names))
    for name in request.dynamic:
        if name not in known:
            raise unknown_name("input", name, known, fix="correct the name in --dynamic")
    return [
        replace(request, dynamic={name: value for name, value in request.dynamic.items() if name in own})
        for own in names
    ]


def _named(info: TensorInfo, names: Sequence[str], example: Feeds) -> TensorInfo:
    shape = example[info.name].shape
    if len(names) != len(shape):
        raise OptimError.usage(
            "dynamic-rank",
            f"--dynamic {info.name}={','.join(names)} names {len(names)} dimensions",
            f"'{info.name}' has {len(shape)}: {list(shape)}",
            f"--dynamic {info.name}={','.join([*names, *[''] * len(shape)][: len(shape)])}",
        )
    return replace(info, shape=tuple(name or size for name, size in zip(names, shape, strict=True)))
