"""Models looked at without a search: one verified against another, several timed against each other."""
