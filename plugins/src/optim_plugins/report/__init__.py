"""The plugin ``report``: what a run found, for people."""
