"""A session whose model takes adapters: each run says with which one, and several are live at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from optim.arrays import Array, Feeds
from optim.errors import OptimError
from optim.model import AdapterInput
from optim_plugins.adapted.adapter_file import Adapter, read_adapter
from optim_plugins.adapted.fit import require_fit
from optim_plugins.adapted.tensor_memory import TensorMemory

if TYPE_CHECKING:
    import onnxruntime

AdapterLike: TypeAlias = "str | PathLike[str] | Adapter | LiveAdapter"
Adapters: TypeAlias = "AdapterLike | Sequence[AdapterLike]"
"""One adapter or several with other inputs each: files, or what was read of them. An empty sequence: none."""


class LiveAdapter:
    """An adapter where a session computes: in the memory of the machine, or of its GPU.

    Args:
        adapter: its arrays.
        name: for messages.
        memory: of the session.

    Attributes:
        name: for messages.
        arrays: by input.
        values: the same as ``onnxruntime.OrtValue``.
    """

    def __init__(self, adapter: Adapter, name: str, memory: TensorMemory) -> None:
        self.name = name
        self.arrays = {key: np.ascontiguousarray(array) for key, array in adapter.arrays.items()}
        self.values = {key: memory.put(array) for key, array in self.arrays.items()}  # some point into the arrays


class AdaptedSession:
    """An ``onnxruntime.InferenceSession`` whose runs may bring an adapter. All other members are those of the session.

    onnxruntime itself has three traps. It ignores active adapters in a bound run (``run_with_iobinding``). It computes
    the base model if the object of an adapter is gone. It takes the first of two adapters with the same names. Here
    arrays of adapters are inputs, so none of this can happen.

    If opening the session supplied the adapter (``supplied_by``), runs cannot bring another one.

    Attributes:
        session: the session, or one of another runtime with its methods.
        inputs: inputs that take weights of adapters.
        default: adapter of a run that names none.
    """

    def __init__(self, session: Any, inputs: Sequence[AdapterInput]) -> None:
        self.session = session
        self.inputs = tuple(inputs)
        self.default: tuple[LiveAdapter, ...] = ()
        self._names = frozenset(one.info.name for one in inputs)
        self._required = frozenset(one.info.name for one in inputs if one.required)
        own = hasattr(session, "get_providers")
        self._memory = TensorMemory.of(session) if own else TensorMemory()
        self._read: dict[tuple[str, int, int], LiveAdapter] = {}

    def adapters(self, given: Adapters | None) -> tuple[LiveAdapter, ...]:
        """Returns the adapters of a run, checked against the model. Reads an unchanged file only once.

        Args:
            given: adapters of the run; None: those of ``optim.load``.

        Raises:
            OptimError[adapter-stays]: opening the session supplied its adapter.
            OptimError[adapter-names-clash]: two adapters have arrays for the same input.
            OptimError: as in ``optim_plugins.adapted.read_adapter`` and ``optim_plugins.adapted.require_fit``.
        """
        if given is None:
            return self.default
        if any(one.supplied_by for one in self.inputs):
            raise OptimError.usage(
                "adapter-stays",
                "the adapter of a session cannot be changed",
                "the model was opened with its adapter, as initializers",
                "open another session: optim.load(DIR, adapter=FILE)",
            )
        found = tuple(self._live(one) for one in listed(given))
        seen: dict[str, str] = {}
        for live in found:
            for name in live.arrays:
                if name in seen:
                    raise OptimError.usage(
                        "adapter-names-clash",
                        f"{seen[name]} and {live.name} cannot be used in one run",
                        f"both have weights for '{name}', and the model would use only one of them",
                        "give each run one of them",
                    )
                seen[name] = live.name
        return found

    def values(self, given: Adapters | None) -> dict[str, onnxruntime.OrtValue]:
        """Returns the arrays that runs need beside their own inputs, by name. Keep the session as long as them.

        Raises:
            OptimError[adapter-required]: as in ``run``.
        """
        live = self.adapters(given)
        self._require(live, ())
        return {name: value for one in live for name, value in one.values.items()}

    def run(
        self,
        output_names: Sequence[str] | None,
        feeds: Feeds,
        run_options: Any = None,
        *,
        adapter: Adapters | None = None,
    ) -> list[Array]:
        """Runs the model once.

        Args:
            output_names: outputs in order; None: all.
            feeds: arrays by name, without those of the adapter.
            run_options: ``onnxruntime.RunOptions``.
            adapter: adapter of this run; None: that of ``optim.load``; an empty sequence: none.

        Raises:
            OptimError[adapter-required]: there is no adapter, and the model computes nothing without one.
        """
        live = self.adapters(adapter)
        self._require(live, feeds)
        if self._memory.kind == "cpu" or not _are_plain(feeds):  # arrays of the machine are read where they lie
            weights = {name: array for one in live for name, array in one.arrays.items()}
            more = () if run_options is None else (run_options,)
            outputs: list[Array] = self.session.run(output_names, {**feeds, **weights}, *more)
            return outputs
        import onnxruntime

        values = {name: value for one in live for name, value in one.values.items()}
        arrays = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        values |= {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
        names = list(output_names) if output_names is not None else [one.name for one in self.session.get_outputs()]
        return [value.numpy() for value in self.session.run_with_ort_values(names, values, run_options)]

    def io_binding(self, *, adapter: Adapters | None = None) -> Any:
        """Returns a binding with the arrays of an adapter."""
        binding, live = self.session.io_binding(), self.adapters(adapter)
        for one in live:
            for name, value in one.values.items():
                binding.bind_ortvalue_input(name, value)
        binding.optim_adapters = live  # they live as long as the binding
        return binding

    def get_inputs(self) -> list[Any]:
        """Returns the inputs of a run, without those of its adapter."""
        return [value for value in self.session.get_inputs() if value.name not in self._names]

    def _require(self, live: Sequence[LiveAdapter], feeds: Iterable[str]) -> None:
        """Refuse a run without weights that it must bring: not every runtime does, and some take those of the last."""
        missing = self._required.difference(feeds, *(one.arrays for one in live))
        if missing:
            raise OptimError.usage(
                "adapter-required",
                "the model does not run without an adapter",
                f"nothing is given for '{min(missing)}', and it has no default",
                "give the run one: run(..., adapter=FILE); optim.load(DIR, adapter=FILE) gives it to every run",
            )

    def _live(self, one: AdapterLike) -> LiveAdapter:
        if isinstance(one, LiveAdapter):
            return one
        if isinstance(one, Adapter):
            require_fit(one, self.inputs, "the adapter")
            return LiveAdapter(one, "the adapter", self._memory)
        path = os.path.abspath(one)  # noqa: PTH100 - each run comes here, and a Path takes several times as long
        try:
            stat = os.stat(path)  # noqa: PTH116
        except OSError:
            read_adapter(Path(one))  # says what is wrong
            raise
        key = (path, stat.st_size, stat.st_mtime_ns)
        if key not in self._read:
            read = read_adapter(Path(one))
            require_fit(read, self.inputs, str(one))
            self._read[key] = LiveAdapter(read, str(one), self._memory)
        return self._read[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)


def listed(given: Adapters) -> tuple[AdapterLike, ...]:
    """Adapters one by one."""
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)


def _are_plain(feeds: Mapping[str, Any]) -> bool:
    """Whether all feeds are arrays of numbers, which onnxruntime takes without a copy."""
    return all(isinstance(array, np.ndarray) and array.dtype.kind in "fiub" for array in feeds.values())
