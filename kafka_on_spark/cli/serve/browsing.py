"""Opens an address in this machine's browser, and tells it to no other user.

What a program is started with, everybody on the machine may read; the address has a token. So the
browser is started with a file that only this user may read, and that leads on.
"""

import os
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

PAGE: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>kafka-on-spark</title>
<a href="{address}">the console</a>
"""


@contextmanager
def opened_in_browser(address: str) -> Iterator[None]:
    """Open an address; the file that leads to it is gone after the block."""
    with TemporaryDirectory(prefix="kafka-on-spark-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "console.html"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(PAGE.format(address=escape(address)))
        webbrowser.open(path.as_uri())
        yield
