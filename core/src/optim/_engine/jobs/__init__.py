"""What the jobs are, and the one runner behind them all."""
