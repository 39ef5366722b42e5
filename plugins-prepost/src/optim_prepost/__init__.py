"""Pre- and post-processing steps inside the model: the plugin ``prepost`` of optim."""

PACKAGE = "optim-plugin-prepost"
"""The distribution, as errors name it."""
