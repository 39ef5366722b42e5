"""Precisions that OpenVINO computes in by a hint, whatever the graph says."""
