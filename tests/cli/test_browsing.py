"""`console --open` starts a browser, and no argument of that is a secret."""

import webbrowser
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kafka_on_spark.cli.serve.browsing import opened_in_browser

ADDRESS = "http://127.0.0.1:8000/#token=secret"


def test_the_browser_is_given_a_file_that_only_its_user_reads_and_that_goes(monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    with opened_in_browser(ADDRESS):
        [given] = opened
        assert "secret" not in given
        path = Path(url2pathname(urlsplit(given).path))
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert f'content="0; url={ADDRESS}"' in path.read_text()

    assert not path.parent.exists()
