"""Results laid out for programs that are not optim's, opened by these, and compared."""
