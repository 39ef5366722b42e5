"""NVIDIA's GPUs: what is here, targets and backends; the passes of ``cuda`` and ``tensorrt`` in their folders."""
