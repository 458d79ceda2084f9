"""A model behind HTTP: scores, incidents, health, metrics."""

from manyone.serve.app import make_app

__all__ = ["make_app"]
