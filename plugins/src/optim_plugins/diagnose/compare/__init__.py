"""Models compared without a search: one verified against another, several timed in turns."""
