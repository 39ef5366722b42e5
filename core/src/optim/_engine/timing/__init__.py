"""What ONNX Runtime's own profiler says of the nodes of a model, and the graph that it executes."""
