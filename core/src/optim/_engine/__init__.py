"""Inside of optim: no plugin imports from here, and everything may move from one release to the next."""
