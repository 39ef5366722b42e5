"""Which plugins are installed, what they offer, and in which order it runs."""
