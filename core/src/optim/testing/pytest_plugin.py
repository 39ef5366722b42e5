"""What pytest loads where optim-core is installed: plain asserts of the kit say what they compared."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("optim.testing.kits")
