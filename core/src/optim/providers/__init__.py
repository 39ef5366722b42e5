"""Execution providers of ONNX Runtime: what they need to start, and which of them ran what."""
