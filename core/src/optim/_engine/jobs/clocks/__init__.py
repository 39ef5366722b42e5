"""What goals are timed by, a file each: a round of such a clock runs what the user runs, and gives one figure."""
