"""Adapters of a model: files of their weights, what fits which model, and sessions that run with them."""

from optim_plugins.adapted.adapter_file import ONNX_ADAPTER as ONNX_ADAPTER
from optim_plugins.adapted.adapter_file import Adapter as Adapter
from optim_plugins.adapted.adapter_file import read_adapter as read_adapter
from optim_plugins.adapted.adapter_file import require_format as require_format
from optim_plugins.adapted.adapter_file import write_adapter as write_adapter
from optim_plugins.adapted.fit import not_taken as not_taken
from optim_plugins.adapted.fit import require_fit as require_fit
from optim_plugins.adapted.session import AdaptedSession as AdaptedSession
