"""How OpenVINO runs a model: properties that change its speed and no figure."""
