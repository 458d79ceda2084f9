"""Rows with a past: what their entity was like before."""
