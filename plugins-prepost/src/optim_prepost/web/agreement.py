"""Whether what was delivered computes what was judged: one sample, its right outputs, and how far they may be apart."""

from __future__ import annotations

import numpy as np

from optim import ExitStatus, OptimError, TensorInfo
from optim.arrays import Feeds, Outputs
from optim.backend import Delivery
from optim.drift import compare_outputs, objection
from optim_prepost import PACKAGE
from optim_prepost.plans.plan import StepPlan
from optim_prepost.web.settings import web_options

TOLERANCE = 1e-3
"""Drift of the delivered folder, opened anew, from the model that was judged: threads add in another order."""


def sample_of(delivery: Delivery, plan: StepPlan | None) -> Feeds:
    """One sample as the delivered model takes it: raw for a composed model, else small made arrays."""
    if plan is not None:
        from optim_prepost.reference.samples import raw_samples

        return raw_samples(plan)[0]
    from optim.arrays import dtype_of

    random = np.random.default_rng(0)
    return {
        info.name: (random.random(_sizes(info)) if info.dtype.startswith("float") else np.ones(_sizes(info))).astype(
            dtype_of(info.dtype)
        )
        for info in delivery.model.inputs
    }


def expected_of(delivery: Delivery, feeds: Feeds) -> Outputs:
    """What the model that was judged makes of a sample, in onnxruntime-web under Node.

    Kernels of WASM and native ones take products of integers apart in other ways: how far that is from the original was
    judged on the run's own samples.
    """
    from optim_prepost.web.node_session import NodeSession

    with NodeSession(delivery.model.path, web_options(delivery.model.session)) as session:
        return session.run(feeds)


def require_equal(expected: Outputs, got: Outputs, where: str) -> float:
    """The drift of the worst output.

    Raises:
        OptimError[page-differs]: it is beyond the tolerance, or an output is missing.
    """
    compared = compare_outputs([(expected, got)])
    if why := objection(compared, TOLERANCE):
        raise OptimError(
            "page-differs",
            f"the delivered model gives other outputs {where}",
            why,
            "this is an issue of the plugin or of onnxruntime-web, not of the model",
            PACKAGE,
            ExitStatus.NOT_HELD,
        )
    return max((one.relative_error for one in compared), default=0.0)


def _sizes(info: TensorInfo) -> list[int]:
    return [size if isinstance(size, int) else 1 for size in info.shape or ()]
