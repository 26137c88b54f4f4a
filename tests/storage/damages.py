"""What crashes, restores and hands do to a file."""


def empty(path):
    path.write_bytes(b"")


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero(path):
    """What a lost page looks like where the size was kept."""
    path.write_bytes(bytes(path.stat().st_size))


def remove(path):
    path.unlink()


# fmt: off
