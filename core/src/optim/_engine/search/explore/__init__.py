"""Explore: a beam of candidates, stage by stage; which passes are tried, and on which candidates."""
