"""Fits by passes over blocks of rows, on one machine or on many."""
