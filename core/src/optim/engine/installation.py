"""For ``optim plugins doctor``, ``install`` and ``remove``: what they need to know of plugins and environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.cli.verbs.plugins import environment_fields as environment_fields
    from optim._engine.plugins.permission import DISABLE_VARIABLE as DISABLE_VARIABLE
    from optim._engine.plugins.plugin import LoadedPlugin as LoadedPlugin
    from optim._engine.plugins.plugin import PluginInfo as PluginInfo
    from optim._engine.plugins.plugin import State as State
    from optim._engine.plugins.registry import Registry as Registry
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.plugins.survey import SurveyedPass as SurveyedPass
    from optim._engine.plugins.survey import survey_passes as survey_passes
    from optim.isolation.environments import MARKER as MARKER
    from optim.isolation.environments import Environment as Environment
    from optim.isolation.environments import environments_folder as environments_folder
    from optim.isolation.environments import executable as executable
    from optim.isolation.environments import installed_environment as installed_environment
    from optim.isolation.environments import installed_environments as installed_environments
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
