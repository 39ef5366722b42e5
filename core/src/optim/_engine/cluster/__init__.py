"""Machines that do jobs for a run: a cluster of dask, reached through the one seam of :mod:`optim._engine.jobs`."""
