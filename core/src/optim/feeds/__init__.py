"""The feeds of a run: read from what the user gives, or synthesized from the graph."""

from optim.feeds.feedset import Assumption, FeedSet, FeedWriter
from optim.feeds.load import load_feeds
from optim.feeds.synthesize import synthesize_feeds

__all__ = ["Assumption", "FeedSet", "FeedWriter", "load_feeds", "synthesize_feeds"]
