"""Plugins whose libraries cannot live beside ours: an environment of their own, and a worker process in it."""
