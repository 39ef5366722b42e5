"""What looks at graphs or writes them, for several passes."""
