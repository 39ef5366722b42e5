"""Attention whose past and present lie in one buffer."""
