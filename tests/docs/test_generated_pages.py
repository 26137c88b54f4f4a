"""The pages that are written from the code say what the code says."""

import runpy

import pytest

from tests.pages import ROOT, page

GENERATOR = runpy.run_path(str(ROOT / ".ci" / "generate_pages.py"))


@pytest.mark.parametrize("name", GENERATOR["PAGES"])
def test_a_generated_page_says_what_the_code_says(name):
    generated = GENERATOR["page_with"](name, GENERATOR["PAGES"][name]())

    assert page(name) == generated, "run ./spark-submit.sh python .ci/generate_pages.py"


def test_the_file_of_settings_says_what_the_code_says():
    assert page("conf/cluster.toml") == GENERATOR["cluster_toml"]()


def test_every_setting_stands_in_the_page_of_settings():
    settings = GENERATOR["SETTINGS"]

    text = page("docs/settings.md")

    assert [name for name in settings if text.count(f"| `{name}` |") != 1] == []
