"""Pages from plain values: one HTML file that loads nothing from elsewhere."""
