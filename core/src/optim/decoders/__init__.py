"""What a graph says of itself as a decoder."""
