"""Operators that HTP rejects, written in operators that it takes: one rule, one file."""
