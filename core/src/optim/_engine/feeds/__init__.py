"""The feeds of a run: read and checked (:mod:`.load`), or synthesized from the graph (:mod:`.synthesize`).

Either way a :class:`~optim._engine.feeds.feedset.FeedSet` on disk. Nothing is imported here: a process that times a
model reads feeds and must start fast.
"""
