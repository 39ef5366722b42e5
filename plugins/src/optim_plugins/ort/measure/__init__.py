"""What a model computes on samples: captured values, ranges, rows."""
