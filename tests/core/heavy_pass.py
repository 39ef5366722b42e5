"""A pass that makes every command wait."""

from __future__ import annotations

import numpy as np
from conforming_passes import Good


class Heavy(Good):
    """Removes Identity nodes, and imports numpy before anybody asks for it."""

    numbers = np.arange(3)
