"""Figures and pages from plain values: what is shown comes in, PNG files and one HTML page go out.

`charts` says what a figure shows, `png` and `interactive` draw it, `page` lays sections of text,
tables and figures out on one page that loads nothing from elsewhere.
"""
