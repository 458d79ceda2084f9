"""Figures and pages from plain values: values in, PNG files and one HTML page out.

`charts` says what a figure shows, `png` and `interactive` draw it, `page` lays sections of text,
tables and figures out on one page that loads nothing from elsewhere.
"""
