"""optim for Qualcomm QNN: what its Hexagon tensor processor (HTP) takes, and how to get a model there."""
