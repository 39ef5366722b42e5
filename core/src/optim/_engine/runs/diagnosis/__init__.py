"""Looks into models without a search: blame, profile, sensitivity."""
