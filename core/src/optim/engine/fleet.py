"""For optim-plugin-fleet: what `optim batch` and clusters need of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.__main__ import main as main
    from optim._engine.feeds.named import is_function as is_function
    from optim._engine.json_file import read_json as read_json
    from optim._engine.locks import LockBusyError as LockBusyError
    from optim._engine.locks import acquire as acquire
    from optim._engine.machine import this_machine as this_machine
    from optim._engine.plugins.chosen_targets import AUTO_TARGET as AUTO_TARGET
    from optim._engine.plugins.chosen_targets import BASELINE_TARGET as BASELINE_TARGET
    from optim._engine.plugins.chosen_targets import target_names as target_names
    from optim._engine.plugins.registry import load_registry as load_registry
    from optim._engine.plugins.versions import carried_key as carried_key
    from optim._engine.plugins.versions import core_digest as core_digest
    from optim._engine.plugins.versions import libraries_of as libraries_of
    from optim._engine.plugins.versions import source_digest as source_digest
    from optim._engine.plugins.versions import version_keys as version_keys
    from optim._engine.recipes.recipe import Recipe as Recipe
    from optim._engine.recipes.recipe import recipe_from as recipe_from
    from optim._engine.recipes.recipe import untrusted as untrusted
    from optim._engine.recipes.toml import read_toml as read_toml
    from optim._engine.reports.outcome import exit_status as exit_status
    from optim._engine.reports.schema import Report as Report
    from optim._engine.reports.words import figure_text as figure_text
    from optim._engine.reports.words import ratio_text as ratio_text
    from optim._engine.runs.folder import report_folder as report_folder
    from optim._engine.runs.folder import report_page as report_page
    from optim._engine.search.keys import machine_key as machine_key
    from optim._engine.search.keys import machine_kind as machine_kind
    from optim._engine.search.turns import Turns as Turns
    from optim._engine.standing import let_stand as let_stand
    from optim._engine.store import Store as Store
    from optim.jobs.doing import PluginCall as PluginCall
    from optim.jobs.process import WorkerProcess as WorkerProcess
    from optim.jobs.process import kill_all as kill_all
    from optim.jobs.resources import free_memory_bytes as free_memory_bytes
    from optim.onnx.external_data import linked_files as linked_files
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
