"""Requests that are answered: of this server's page, with its token, under its own name."""

import pytest
from starlette.datastructures import Headers

from kafka_on_spark.console.console import HEADERS, names_of, refusal

NAMES = names_of(8000)
GOOD = {"host": "127.0.0.1:8000", "authorization": "Bearer secret"}


def status(method="GET", path="/api/grid", **headers):
    given = {name.replace("_", "-"): value for name, value in {**GOOD, **headers}.items() if value}
    found = refusal(method, path, Headers(given), NAMES, "secret")
    return None if found is None else found[0]


# fmt: off
CASES = [
    pytest.param({}, None, id="the page"),
    pytest.param({"host": "localhost:8000"}, None, id="by its other name"),
    pytest.param({"host": "evil.example:8000"}, 421, id="by a name that was bound to this address"),
    pytest.param({"host": "127.0.0.1:9000"}, 421, id="another port's name"),
    pytest.param({"host": ""}, 421, id="no name"),
    pytest.param({"authorization": ""}, 401, id="no token"),
    pytest.param({"authorization": "Bearer secreT"}, 401, id="another token"),
    pytest.param({"authorization": "Bearer \xe9"}, 401, id="no ASCII"),
    pytest.param({"path": "/", "authorization": ""}, None, id="the page's files have no secrets"),
    pytest.param({"path": "/", "host": "evil.example"}, 421, id="files by another name"),
    pytest.param({"sec_fetch_site": "same-origin"}, None, id="the page's own script"),
    pytest.param({"sec_fetch_site": "same-site"}, 403, id="another port's page"),
    pytest.param({"sec_fetch_site": "cross-site"}, 403, id="a page from elsewhere"),
    pytest.param({"method": "POST"}, 405, id="nothing is sent to a view"),
    pytest.param({"method": "POST", "path": "/"}, 405, id="nothing is sent to a file"),
    pytest.param({"method": "DELETE"}, 405, id="another method"),
]
# fmt: on


@pytest.mark.parametrize("asked, expected", CASES)
def test_who_is_refused(asked, expected):
    assert status(**asked) == expected


def test_no_script_style_or_frame_comes_from_elsewhere_or_from_text():
    policy = dict(
        each.strip().partition(" ")[::2] for each in HEADERS["content-security-policy"].split(";")
    )

    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {
        "'self'"
    }
    assert "unsafe" not in HEADERS["content-security-policy"]
