"""Records as the page shows them: whole texts, times, and no record of another topic."""

import pytest

from tests.console.browsers import console_of, page_of

BOM = b"\xef\xbb\xbf"


@pytest.fixture
def page(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        yield page


def test_a_long_text_is_text_where_its_beginning_ends_amidst_a_character(page, disks):
    disks.cluster.append("orders", [("k", "語" * 40_000), ("k", BOM + b"text")])

    page.go("messages?topic=orders&offset=9")

    page.see("語語語").click()
    page.see("of which the beginning is shown")
    page.see("\\ufefftext")


def test_of_a_topic_that_is_deleted_or_not_made_yet_no_other_is_shown(chromium, disks):
    cluster = disks.cluster
    cluster.create_topic("prices", partitions=1, replication_factor=3)
    cluster.append("prices", [(b"k", b"of prices")])
    with console_of(cluster) as address, page_of(chromium, address) as page:
        page.foreseen.append("404")
        page.go("messages?topic=prices")
        page.see("of prices")
        page.page.get_by_label("follow the end").check()

        slider = page.page.get_by_role("slider")
        slider.focus()
        page.page.get_by_role("button", name="the decision before").click()
        page.page.wait_for_function("() => document.body.classList.contains('is-past')")
        slider.focus()
        page.page.keyboard.press("Home")
        page.see("there is no topic 'prices'")
        page.page.get_by_role("button", name="Live").click()
        page.see("of prices")
        cluster.delete_topic("prices")

        page.see("there is no topic 'prices'")
        assert page.page.get_by_label("Topic").input_value() == "prices"
        assert page.page.get_by_text("of prices").count() == 0
