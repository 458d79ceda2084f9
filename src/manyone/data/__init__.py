"""Rows as models take them: labels, groups, checks, blocks, samples."""
