"""ONNX files and sessions, for passes and backends: read, write, look at, and run."""
