"""What is wrong with a file."""


class ModelFileError(ValueError):
    """A file is not a model, or not a state, that can be loaded."""
