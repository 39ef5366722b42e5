"""Machines that do jobs for a run: a cluster of dask, reached through the one seam of :mod:`optim.workplace`.

What crosses the network:

- Dask calls ``work.perform`` with one text of JSON and gets one back: an ``Order`` and its ``Reply`` (``order.py``). An
  order names the job's module, its request, its time limit, the files that it needs with size and sha256, and the
  digest of optim's source. A reply says ``done`` with the answer and the files that were made, ``failed`` with what
  ended the job's process, ``lacks-files`` with their names, or ``unfit`` with the reason.
- Paths of the store are written ``optim-store:///models/NAME``. A name with ``..``, or one that leads out of the store,
  is refused.
- Beside tasks, by ``Client.run``: ``describe`` (what the worker is), ``is_there``, ``take``, ``put`` and ``give``
  (files), ``end_run``.
- Dask pickles references to these functions and what it raises, among its own processes: whoever can connect to a
  scheduler can run code on it and on its workers, hence TLS. Nothing of a user's model, samples or options is pickled
  or unpickled.
"""
