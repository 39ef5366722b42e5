"""What a run has to say: ``report.json``, and a few lines in the terminal."""
