"""What decides about a candidate: valid, within the budget, better by the goal."""
