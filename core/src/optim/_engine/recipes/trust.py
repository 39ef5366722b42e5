"""What a recipe or a lock would have run beside installed plugins: a stranger may have written it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from optim._engine.feeds.named import is_function
from optim._engine.plugins.chosen_targets import choose_targets
from optim._engine.plugins.registry import load_registry
from optim._engine.search.settings import RunSettings
from optim.errors import OptimError
from optim.options import parse_options
from optim.passes import MODEL_STAGES


def require_no_code(settings: RunSettings, path: Path, given: Collection[str]) -> None:
    """Refuse a recipe or a lock that names code.

    Args:
        settings: of the run, with what the file says.
        path: of the file.
        given: names of what the user said on the command line, which is the user's own affair.

    Raises:
        OptimError[untrusted-code]: it names a function or a class that would be imported and run.
    """
    named = next(_named(settings, given), "")
    if named:
        raise untrusted(named, path)


def untrusted(named: str, path: Path) -> OptimError:
    """The refusal of a file that names code.

    Args:
        named: what would be run.
        path: of the file.
    """
    return OptimError.usage(
        "untrusted-code",
        f"{path.name} names {named}, which would be run",
        "a recipe or a lock may come from somebody else, and so may the code that it names",
        "read the file and its code; if you trust both, run it again with --trust-code",
    )


def _named(settings: RunSettings, given: Collection[str]) -> Iterator[str]:
    if "data" not in given and settings.data is not None and is_function(settings.data):
        yield settings.data
    if "metric" not in given and settings.metric is not None and settings.metric.names_code:
        yield settings.metric.name
    asked = [one for one in (*(settings.chain or ()), *(() if "named" in given else settings.named)) if one.options]
    if not asked:
        return
    registry = load_registry()
    targets = choose_targets(registry, settings.target, here=False).targets
    for one in asked:
        offering = (target for target in targets if one.name in {offered.name for offered in registry.offers(target)})
        offered = registry.find_pass(one.name, next(offering, targets[0]))
        if offered.stage in MODEL_STAGES:
            pass_class = offered.over_models
            yield from pass_class().runs_code(parse_options(pass_class, dict(one.options or {})))
