"""Tries every pass on the cases named on stdin, in a process of its own: ``python -m suite.worker``.

One line of JSON comes in, a :class:`Work`; for every trial one line goes out before it begins and one with its result,
so that a crash belongs to a model and a pass.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from optim import Pass
from suite import backend_models
from suite.backend_models import Case
from suite.trials import INGEST, NotRunError, Outcome, Result, Subject, model_passes, try_ingest, try_pass


@dataclass(frozen=True)
class Work:
    """What one process does.

    Attributes:
        modules: of operators' tests; empty for all cases there are.
        names: of cases; None for all that the modules have.
        thorough: all versions and options, not the first alone.
        passes: names, or classes as ``module:class``; empty for all that the plugin offers.
    """

    modules: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    thorough: bool = True
    passes: tuple[str, ...] = ()


def cases_of(work: Work) -> Iterator[Case]:
    """The cases, in an order that does not change."""
    if work.modules:
        found = backend_models.with_variants(backend_models.node_cases(work.modules))
    else:
        found = backend_models.all_cases()
    names = None if work.names is None else set(work.names)
    return (case for case in found if names is None or case.name in names)


def try_case(case: Case, work: Work, begin: Any, passes: list[type[Pass]]) -> Iterator[Result]:
    """Every pass on one case; ``begin`` is told the case and the pass before each."""
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        begin(case.name, INGEST)
        try:
            subject = Subject(case, Path(folder))
        except NotRunError as error:
            yield Result(case.name, INGEST, "", Outcome.NOT_RUN, str(error))
            return
        first = try_ingest(subject)
        yield first
        if first.outcome is not Outcome.RIGHT:
            return
        for pass_class in passes:
            begin(case.name, pass_class.name)
            yield from try_pass(subject, pass_class, thorough=work.thorough)


def main() -> None:
    """Do the work of stdin."""
    gc.set_threshold(200_000)  # thousands of small graphs are made, and next to no garbage
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    work = Work(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in json.load(sys.stdin).items()}
    )

    def send(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    passes = [found for found in model_passes() if not work.passes or found.name in work.passes]
    passes += [pkgutil.resolve_name(name) for name in work.passes if ":" in name]
    for case in cases_of(work):
        for result in try_case(case, work, lambda case, name: send(begin=[case, name]), passes):
            send(result=asdict(result))
        send(done=case.name)
    send(end=True)


if __name__ == "__main__":
    main()
