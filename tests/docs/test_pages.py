"""What pages say of the repository is so: links, files, modules, verbs and options."""

import re
import subprocess

import pytest
from typer.main import get_command

from kafka_on_spark.cli.application import app
from tests.pages import ROOT, blocks, page, pages

PAGES = pages()
_COMMAND_LINE = get_command(app)
VERBS = {name: _COMMAND_LINE.get_command(None, name) for name in vars(_COMMAND_LINE)["commands"]}
FOLDERS = ("", "kafka_on_spark/", "docs/")
MODULES = {
    file.name
    for folder in ("kafka_on_spark", "tests", "jobs", ".ci")
    for file in (ROOT / folder).rglob("*.py")
}


def test_the_readme_has_200_lines_at_most():
    assert len(PAGES["README.md"].splitlines()) <= 200


@pytest.mark.parametrize("name", PAGES)
def test_each_link_of_a_page_leads_to_a_file(name):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", PAGES[name])
    folder = (ROOT / name).parent

    assert [each for each in links if not (folder / each).is_file()] == []


@pytest.mark.parametrize("name", PAGES)
def test_each_file_that_a_page_names_is_there(name):
    named = re.findall(
        r"(?<![\w./-])((?:[\w.-]+/)+[\w-]+\.(?:py|toml|ipynb|lock|conf))\b", PAGES[name]
    )
    nowhere = [
        each for each in named if not any((ROOT / folder / each).is_file() for folder in FOLDERS)
    ]

    assert nowhere == []


@pytest.mark.parametrize("name", PAGES)
def test_each_module_that_a_page_names_without_its_folder_is_there(name):
    assert set(re.findall(r"`(\w+\.py)`", PAGES[name])) <= MODULES


@pytest.mark.parametrize("name", PAGES)
def test_each_folder_that_a_page_names_is_there(name):
    named = re.findall(r"`((?:kafka_on_spark|tests|docs|jobs|conf)(?:/\w+)*)/?`", PAGES[name])

    assert [each for each in named if not (ROOT / each).is_dir()] == []


@pytest.mark.parametrize("name", PAGES)
def test_each_module_that_a_page_names_is_there(name):
    named = re.findall(r"\b(kafka_on_spark(?:\.[a-z_]+)+)(?=\.[A-Z]|[`\s])", PAGES[name])
    places = [each.replace(".", "/") for each in named if each not in ("kafka_on_spark.lag",)]
    nowhere = [
        each
        for each in places
        if not ((ROOT / f"{each}.py").is_file() or (ROOT / each / "__init__.py").is_file())
    ]

    assert nowhere == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_needs_no_script_to_be_read(name):
    assert "```mermaid" not in PAGES[name]
    assert re.findall(r"<(?:script|iframe|img|link)\b", PAGES[name]) == []
    assert re.findall(r"!\[[^]]*\]\(https?:", PAGES[name]) == []


def test_the_table_of_verbs_has_every_verb():
    table = page("docs/command-line.md").partition("| verb | does |")[2].partition("\n\n")[0]

    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.M) == list(VERBS)


@pytest.mark.parametrize("name", PAGES)
def test_calls_of_the_command_line_have_options_that_are_there(name):
    code = [*re.findall(r"`([^`\n]+)`", PAGES[name])]
    code += [line for language in ("sh", "console") for each in blocks(name, language)
             for line in each.splitlines()]  # fmt: skip
    # What stands behind " -- " is a call of its own.
    for call in (part for each in code for part in each.split(" -- ")):
        found = re.match(r"(?:\$ )?(?:kafka-on-spark )?([a-z-]+) (--.*)", call)
        if found is None or found[1] not in VERBS:
            continue
        known = {each for option in VERBS[found[1]].params for each in option.opts}
        given = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", found[2]))
        assert given <= known | {"--help"}, call


def test_options_of_tests_that_a_page_names_are_there():
    sources = "".join(file.read_text() for file in (ROOT / "tests").rglob("conftest.py"))
    known = {*re.findall(r'addoption\(\s*"(--[a-z0-9-]+)"', sources), "--dist", "--help"}
    calls = [
        call for text in PAGES.values() for call in re.findall(r"\bpytest( [^`\n]*--[^`\n]*)", text)
    ]

    assert len(calls) >= 5
    for call in calls:
        assert set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", call)) <= known, call


CONTRIBUTING = page("CONTRIBUTING.md")
SEARCHES = re.findall(r"^\| [^|]+\? \| `([^|]+)` \| (.*) \|$", CONTRIBUTING, re.M)


@pytest.mark.parametrize("search, answer", SEARCHES)
def test_a_search_of_contributing_finds_the_file_that_it_says_and_no_other(search, answer):
    [function] = re.findall(r"^rule\(\) .*$", CONTRIBUTING, re.M)

    said = subprocess.run(
        ["bash", "-c", f"{function}\n{search}"], cwd=ROOT, capture_output=True, text=True
    ).stdout

    found = {line.partition(":")[0] for line in said.splitlines()}
    [file] = re.findall(r"`(\S+\.py)`", answer)
    assert found == {f"kafka_on_spark/{file}"}


def test_contributing_has_six_searches():
    assert len(SEARCHES) == 6
