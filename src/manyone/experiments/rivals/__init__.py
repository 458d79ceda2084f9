"""What people use today, with the few methods that the experiments need; one file per origin.

PyOD is optional: its rivals import it when they are fitted.
"""
