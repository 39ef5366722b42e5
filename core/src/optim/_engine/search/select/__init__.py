"""Select: what is better, what is worth delivering, and what is delivered in the end."""
