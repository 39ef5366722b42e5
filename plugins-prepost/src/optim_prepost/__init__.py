"""Pre- and post-processing steps inside the model: the plugin ``prepost`` of optim."""
