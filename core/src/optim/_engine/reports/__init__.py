"""The report of a run: ``report.json``, and a few lines in the terminal."""
