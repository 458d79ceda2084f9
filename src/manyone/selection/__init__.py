"""How settings are chosen on training rows."""
