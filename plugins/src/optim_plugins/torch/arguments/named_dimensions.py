"""``--dynamic``: dimensions as the user names them, laid over what was found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim import ExitStatus, OptimError, SourceRequest, TensorInfo
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
            raise unknown_name("input", name, (info.name for info in inputs), fix="look at --dynamic")
    return found


def _named(info: TensorInfo, names: Sequence[str], example: Feeds) -> TensorInfo:
    shape = example[info.name].shape
    if len(names) != len(shape):
        raise OptimError(
            "dynamic-rank",
            f"--dynamic {info.name}={','.join(names)} names {len(names)} dimensions",
            f"'{info.name}' has {len(shape)}: {list(shape)}",
            f"--dynamic {info.name}={','.join([*names, *[''] * len(shape)][: len(shape)])}",
            status=ExitStatus.USAGE,
        )
    return replace(info, shape=tuple(name or size for name, size in zip(names, shape, strict=True)))
