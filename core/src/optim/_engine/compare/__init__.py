"""How a result is held against the original: where it runs, what is fed, what is counted, what is not trusted."""
