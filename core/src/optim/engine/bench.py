"""For `optim bench`, a verb of plugin ``diagnose``: what its options need of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.cli.request import on_runtimes as on_runtimes
    from optim._engine.cli.request import runtime_option as runtime_option
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.reports.answers import GridBenchmark as GridBenchmark
    from optim._engine.reports.renderer import RENDERER as RENDERER
    from optim.cli_kit.options import MODEL_OR_PROGRAM_PATH as MODEL_OR_PROGRAM_PATH
    from optim.cli_kit.options import made_up_options as made_up_options
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
