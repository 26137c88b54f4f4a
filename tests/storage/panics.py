"""What a panic of a library in Rust is in Python: of this name, and no Exception."""


class PanicException(BaseException):
    """As pyo3 makes it: it can't be imported from there."""
