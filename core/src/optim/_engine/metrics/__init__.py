"""Task metrics: the built-in ones, how one is found by what a user wrote, and how it is measured over samples."""
