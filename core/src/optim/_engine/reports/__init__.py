"""What a run has to say: ``report.json``, ``report.html``, and a few lines in the terminal."""
