"""What Python calls: ``optim.run``, ``verify``, ``bench``, ``export``, and what is refused of a request at once."""
