"""OpenVINO itself: its devices, sessions, and what it says of nodes."""
