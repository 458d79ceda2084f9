"""Metrics learned inside tasks: shrinkage, robust weights, and reasons of rows."""
