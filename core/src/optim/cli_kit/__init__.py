"""Parts for commands of plugins, so that they look and behave like those of optim."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim._engine.graphs.ingest import read_unchecked as read_unchecked
    from optim.cli_kit.live_lines import progress as progress
    from optim.cli_kit.models import context_for as context_for
    from optim.cli_kit.models import look_at as look_at
    from optim.cli_kit.models import made_up_feeds as made_up_feeds
    from optim.cli_kit.models import read_feeds as read_feeds
    from optim.cli_kit.models import read_model as read_model
    from optim.cli_kit.models import require_target as require_target
    from optim.cli_kit.models import write_model as write_model
    from optim.cli_kit.names import CONVERSION_NAME as CONVERSION_NAME
    from optim.cli_kit.names import LAYOUT_NAME as LAYOUT_NAME
    from optim.cli_kit.names import METRIC_NAME as METRIC_NAME
    from optim.cli_kit.names import PASS_NAME as PASS_NAME
    from optim.cli_kit.names import PLUGIN_NAME as PLUGIN_NAME
    from optim.cli_kit.names import TARGET_NAME as TARGET_NAME
    from optim.cli_kit.names import TARGET_NAMES as TARGET_NAMES
    from optim.cli_kit.options import MODEL_PATH as MODEL_PATH
    from optim.cli_kit.options import SECONDS as SECONDS
    from optim.cli_kit.options import OptimCommand as OptimCommand
    from optim.cli_kit.options import data_option as data_option
    from optim.cli_kit.options import metric_options as metric_options
    from optim.cli_kit.options import seed_option as seed_option
    from optim.cli_kit.options import target_option as target_option
    from optim.cli_kit.options import targets_option as targets_option
    from optim.cli_kit.output import NOTHING as NOTHING
    from optim.cli_kit.output import echo as echo
    from optim.cli_kit.output import json_option as json_option
    from optim.cli_kit.output import print_fields as print_fields
    from optim.cli_kit.output import print_json as print_json
    from optim.cli_kit.output import print_table as print_table
    from optim.cli_kit.output import printable as printable
    from optim.cli_kit.output import require_drawing as require_drawing
    from optim.cli_kit.output import require_writable as require_writable
    from optim.cli_kit.output import size_text as size_text
    from optim.cli_kit.output import write_text as write_text
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
