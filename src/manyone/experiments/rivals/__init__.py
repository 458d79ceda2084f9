"""What people use today, with the few methods that the experiments need; one file per origin.

PyOD and scikit-lego are optional: their rivals import them when they are fitted.
"""
