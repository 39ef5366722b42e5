"""The class that core asks for comparisons: ``optim.verify`` and ``optim.bench`` call it."""

from __future__ import annotations

from optim_plugins.diagnose.compare.bench import bench_models
from optim_plugins.diagnose.compare.verify import verify_models


class Comparer:
    """The ``ModelComparer`` of core."""

    verify = staticmethod(verify_models)
    bench = staticmethod(bench_models)
