"""Pages from plain values: values in, one HTML file out that loads nothing from elsewhere."""
