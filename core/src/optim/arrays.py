"""Names for arrays, without importing numpy: the command line starts without it."""

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
"""Named input arrays for one run of a model."""

Outputs: TypeAlias = Mapping[str, Array]
"""Named output arrays of one run of a model."""
