"""Records as the page shows them: whole texts, times, and no record of another topic."""

import pytest

from kafka_on_spark import Record
from tests.console.browsers import console_of, page_of

BOM = b"\xef\xbb\xbf"
STATUS = "main p[role=status]"


@pytest.fixture
def page(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        yield page


def look(page, by, wanted):
    """Ask for records, and return what the page says of them."""
    page.page.get_by_label("Begin at").select_option(by)
    page.page.get_by_label("Where to begin").fill(wanted)
    page.page.get_by_role("button", name="Show", exact=True).click()
    status = page.page.locator(STATUS)
    while (said := status.inner_text()) == "Reads …":
        page.page.wait_for_timeout(50)
    return said


def test_a_long_text_is_text_where_its_beginning_ends_amidst_a_character(page, disks):
    disks.cluster.append("orders", [("k", "語" * 40_000), ("k", BOM + b"text")])

    page.go("messages?topic=orders&offset=9")

    page.see("語語語").click()
    page.see("of which the beginning is shown")
    page.see("\\ufefftext")


def test_a_header_of_many_bytes_that_are_no_text_is_shown_in_lines(page, disks):
    disks.cluster.append(
        "orders", [Record("k", "v", headers=[("bytes", bytes(range(240, 256)) * 2)])]
    )

    page.go("messages?topic=orders&offset=9")
    page.page.locator("details.message summary").click()

    assert page.see("00000010  f0 f1").inner_text().count("\n") == 1


def test_the_empty_key_is_a_key(page, disks):
    disks.cluster.append("orders", [("", "of the empty key")])
    page.go("messages?topic=orders")
    page.see("10 records")

    said = look(page, "key", "")

    assert said.startswith("1 records of the key")


# fmt: off
TIMES = [
    # The words of Date.parse would be years, or a day in March.
    ("1",                           "Give a time such as"),
    ("2026",                        "Give a time such as"),
    ("2026-02-31",                  "Give a time such as"),
    ("2026-01-31 12:00:00+02:00",   "Give a time such as"),
    ("1969-12-31",                  "9 records"),
    ("2026-01-31 12:00",            "9 records"),
    ("2026-01-31T12:00:00.5Z",      "9 records"),
    ("9999-12-31",                  "There is no record"),
]
# fmt: on


def test_a_time_is_one_that_there_is(page):
    page.go("messages?topic=orders")
    page.see("9 records")

    for given, said in TIMES:
        assert look(page, "time", given).startswith(said), given


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


def test_a_cluster_without_a_topic_says_so(chromium, disks):
    disks.cluster.delete_topic("orders")
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.go("messages")
        page.see("There is no topic.")


def test_a_record_that_is_open_stays_open_and_in_focus_while_others_come(page, disks):
    page.go("messages?topic=orders")
    page.page.get_by_label("follow the end").check()
    page.page.locator("details.message").nth(2).locator("summary").click()
    assert "6" in page.page.locator("details[open] summary").inner_text()

    disks.cluster.append("orders", [("new", f"record {n}") for n in range(3)])
    page.see("record 2")

    opened = page.page.locator("details[open] summary")
    assert opened.inner_text().startswith("6 ")
    assert opened.evaluate("node => node === document.activeElement")
    assert page.page.locator("details.message strong").all_inner_texts() == [
        str(each) for each in reversed(range(12))
    ]


def test_of_a_partition_that_is_not_there_no_other_is_shown(page, disks):
    page.foreseen.append("404")
    disks.cluster.create_topic("prices", partitions=1, replication_factor=3)
    page.go("messages?topic=orders&partition=9")

    page.see("topic 'orders' has no partition 9")
    page.page.get_by_label("Topic").select_option("prices")

    page.see("There is no record from offset 0 on")
    assert page.page.get_by_label("Partition", exact=True).input_value() == "0"
