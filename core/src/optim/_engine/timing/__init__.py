"""The clock: models timed in lock-step against the original, each in a process of its own."""
