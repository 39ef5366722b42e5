"""Passes, backend and target for ONNX Runtime on the CPU."""
