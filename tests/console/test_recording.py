"""The console as a recording: the same page without a server, in a notebook's frame and in a file."""

import json
import re

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.console import recording
from kafka_on_spark.console.recording import VIEWS, console_page
from kafka_on_spark.errors import InvalidRequestError
from tests.cluster.disks import new_disks, patient_passes
from tests.console.browsers import page_of

EVIL = '</script><script>alert("x")</script>&\u202e'


@pytest.fixture(scope="module")
def lost():
    """A cluster whose broker 3 was lost, with a group."""
    with patient_passes(), new_disks(racks={1: "a", 2: EVIL, 3: "c"}) as disks:
        disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
        disks.cluster.append("orders", [{"value": b"v", "partition": 0}] * 9)
        disks.cluster.alter_group_offsets("billing", {("orders", 0): 4})
        disks.take_away(3)
        disks.cluster.run_controller()
        yield disks.cluster


def answers_of(page):
    """Return what was recorded, by name and parameters."""
    data = re.search(r'id="recording">(.*?)</script>', page.html, re.DOTALL)[1]
    return {
        (name, *sorted(asked.items())): answer
        for name, asked, answer in json.loads(data)["answers"]
    }


def test_a_saved_page_shows_each_view_and_the_past_without_a_server(chromium, lost, tmp_path):
    path = tmp_path / "console.html"
    console_page(lost).save(path)

    with page_of(chromium, path.as_uri()) as page:
        page.see("under-replicated (2 of 3)")
        page.see("this page was recorded at")
        for title, text in [
            ("Timeline", "created by request"),
            ("Brokers and disks", "fenced since"),
            ("Groups", "billing"),
            ("Reassignments", "Nothing is being reassigned."),
            ("Voters", "the log is committed to"),
            ("What if", "Choose brokers"),
            ("Messages", "this was not recorded"),
        ]:
            page.page.get_by_role("link", name=title, exact=True).click()
            page.see(text)
            assert page.violations() == [], title
        page.page.get_by_role("link", name="What if").click()
        page.page.get_by_role("checkbox").first.click()
        page.see("Partitions that would change")
        page.go("topic?name=orders")
        page.see("Read by")
        page.go("timeline?topic=orders&partition=1")
        page.see("created by request")

        page.page.get_by_role("button", name=re.compile("as of .*: orders-1")).last.click()
        page.page.wait_for_function("() => document.body.classList.contains('is-past')")
        page.go("grid")
        page.see("committed to 0")
        assert page.page.get_by_text("under-replicated (").count() == 0
        page.page.get_by_role("button", name="Newest").click()
        page.see("under-replicated (2 of 3)")


def test_a_notebook_shows_it_in_a_frame_that_begins_with_any_view(chromium, lost, tmp_path):
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        f"<!doctype html><h1>mine</h1>{console_page(lost, 'brokers')._repr_html_()}"
    )

    with page_of(chromium, notebook.as_uri()) as page:
        frame = page.page.frame_locator("iframe")
        frame.get_by_text("fenced since").wait_for()
        frame.get_by_role("link", name="Timeline").click()
        frame.get_by_text("created by request").first.wait_for()
        frame.get_by_role("link", name="What if").click()
        frame.get_by_role("checkbox").first.click()
        frame.get_by_role("heading", name="Partitions that would change").wait_for()
        assert page.page.get_by_role("heading", name="mine").is_visible()
        assert page.page.evaluate("document.activeElement.tagName") != "MAIN"


def test_what_users_wrote_ends_no_element(lost):
    page = console_page(lost)

    assert EVIL in {each["rack"] for each in answers_of(page)["brokers",]["view"]["brokers"]}
    assert "alert(" in page.html
    assert "<script>alert(" not in page.html


def test_a_recording_has_less_of_a_large_cluster(lost, monkeypatch):
    whole = answers_of(console_page(lost))
    monkeypatch.setattr(recording, "BYTES_MAX", 4000)

    bounded = answers_of(console_page(lost))

    assert {("grid",), ("moments",), ("timeline",)} <= bounded.keys() < whole.keys()
    moments = bounded["moments",]["view"]
    kept = {end for end, *_ in moments["moments"]}
    assert 0 < len(kept) < len(whole["moments",]["view"]["moments"])
    assert moments["olderCount"] + len(kept) == len(whole["moments",]["view"]["moments"])
    past = {int(dict(asked)["at"]) for name, *asked in whole if name == "grid" and asked}
    assert past == {end for end, *_ in whole["moments",]["view"]["moments"]}


def test_a_view_that_is_none_and_a_cluster_of_a_moment_are_refused(lost):
    with pytest.raises(InvalidRequestError, match="view can't be 'messages': give one of grid"):
        console_page(lost, "messages")
    with (
        Cluster.open(lost.root, as_of=lost.image.offset) as then,
        pytest.raises(InvalidRequestError, match="choose the moment on the page"),
    ):
        console_page(then)


@pytest.mark.parametrize("view", VIEWS)
def test_a_page_begins_with_the_view_that_was_asked_for(lost, view):
    assert f'<html lang="en" data-view="{view}">' in console_page(lost, view).html
