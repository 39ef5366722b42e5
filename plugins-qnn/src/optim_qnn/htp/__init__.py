"""HTP itself: chips, targets, sessions, and what it says of nodes."""
