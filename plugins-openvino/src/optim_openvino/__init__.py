"""optim for OpenVINO: models on its runtime, and passes that prepare them for it."""
