"""Types of arrays. The module does not import numpy, so that the command line starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.generic]
else:
    Array: TypeAlias = Any

Feeds: TypeAlias = Mapping[str, Array]
"""Input arrays by name, for one run of a model."""

Outputs: TypeAlias = Mapping[str, Array]
"""Output arrays by name, of one run of a model."""


def is_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether a type is a float, including those of ml_dtypes. The 4-bit integers of ml_dtypes are not floats."""
    return dtype.name.startswith(("float", "bfloat"))


def dtype_of(name: str) -> np.dtype[np.generic]:
    """Returns the numpy type of a name that numpy, ml_dtypes or ``optim.TensorInfo`` uses.

    Raises:
        TypeError: there is no array of that type.
    """
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import onnx_ir as ir

        if name.upper() in ir.DataType.__members__:
            known: np.dtype[np.generic] = ir.DataType[name.upper()].numpy()
            return known
        import ml_dtypes

        if hasattr(ml_dtypes, name):
            extended: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
            return extended
        raise
