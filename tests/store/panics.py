"""What a panic of a library in Rust is in Python: of this name, and no Exception."""


class PanicException(BaseException):
    """Stands for pyo3's, which can't be imported."""
