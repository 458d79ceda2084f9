"""What people use today, as far as the experiments need; one file per origin.

PyOD is optional: its rivals import it when they are fitted.
"""
