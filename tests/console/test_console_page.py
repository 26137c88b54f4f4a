"""The page in a real browser: what changes while it is open, its past, many partitions."""

import re
import time
from pathlib import Path

from kafka_on_spark import console
from tests.cluster.disks import isr_of, records
from tests.console.browsers import console_of, page_of

MANY = 10_000


def test_what_is_committed_and_a_disk_that_is_lost_are_seen_without_a_reload(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")

        disks.cluster.append("orders", records(b"one more"))
        page.see("committed to 10")
        disks.take_away(3)
        disks.cluster.run_controller()

        page.see("under-replicated (2 of 3)")
        row = page.page.locator("[data-name=orders-0]")
        assert row.get_by_label("broker 3: broker does not answer, out of sync").count() == 1
        assert page.violations() == []
        assert page.page.locator(".row.topic").get_by_text("1 with a problem").count() == 1
        disks.give_back(3)
        while isr_of(disks.cluster, "orders") != [1, 2, 3]:
            disks.cluster.run_controller()
            page.page.wait_for_timeout(1000)  # each decision is an event of its own
            disks.cluster.replicate()

        page.page.get_by_text("under-replicated (2 of 3)").wait_for(state="hidden")
        assert page.page.locator(".row.topic .bad").count() == 0


def test_the_whole_page_goes_back_to_a_decision_and_returns_to_now(chromium, disks):
    disks.take_away(1)
    disks.cluster.run_controller()
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("under-replicated (2 of 3)")
        page.go("timeline")
        page.see("created by request")

        decisions = page.page.get_by_role("button", name=re.compile("as of .*: orders-0"))
        decisions.last.click()
        page.page.wait_for_function("() => document.body.classList.contains('is-past')")
        page.go("grid")
        page.see("committed to 0")
        assert page.page.get_by_text("under-replicated (").count() == 0
        assert page.violations() == []
        page.go("timeline")
        page.see("created by request")
        assert page.violations() == []
        page.page.get_by_role("button", name="Live").click()

        page.go("grid")
        page.see("under-replicated (2 of 3)")
    disks.give_back(1)


def test_records_are_read_and_followed(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.go("messages?topic=orders&partition=0&offset=3")
        page.see("k3")
        messages = page.page.locator("details.message")
        messages.nth(5).wait_for()  # a grid that comes late has them drawn anew
        assert messages.count() == 6
        page.page.get_by_label("follow the end").check()

        disks.cluster.append("orders", [(b"late", b"\xff\xfe")])

        page.see("late").click()
        page.see("00000000  ff fe")
        assert page.violations() == []


def late(route):
    time.sleep(1)
    route.continue_()


def test_keys_and_values_keep_every_digit_and_every_name(chromium, disks):
    value = rb'{"a":9007199254740993,"a":[1.0,1e400,-0],"b":{},"c":[],"d":"\u0041, {\"x\": 1}"}'
    disks.cluster.append("orders", [(b"1234567890123456789", value), (b"1.0", b"1e400")])
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.go("messages?topic=orders&partition=0&offset=9")

        page.see("1234567890123456789").click()

        texts = page.page.locator("details.message pre").all_text_contents()
        assert texts[:2] == ["1.0", "1e400"]
        assert texts[2] == "1234567890123456789"
        assert texts[3].splitlines() == [
            "{",
            '  "a": 9007199254740993,',
            '  "a": [',
            "    1.0,",
            "    1e400,",
            "    -0",
            "  ],",
            '  "b": {},',
            '  "c": [],',
            r'  "d": "\u0041, {\"x\": 1}"',
            "}",
        ]


def test_ten_thousand_partitions_are_few_nodes_wherever_they_are_scrolled(chromium, disks):
    disks.cluster.create_topic("many", partitions=MANY, replication_factor=3)
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.page.get_by_role("button", name="partitions of many").click()
        page.page.locator("[data-name=many-0]").wait_for()
        scroll = page.page.locator(".scroll")

        scroll.evaluate("node => { node.scrollTop = node.scrollHeight; }")
        page.page.locator(f"[data-name=many-{MANY - 1}]").wait_for()

        assert page.page.locator("[data-name]").count() < 100
        found = page.page.get_by_role("searchbox", name="Find partitions")
        found.fill("many-777")
        page.page.locator("[data-name=many-7779]").wait_for()
        page.see("11 of ")


def test_without_the_token_the_page_says_where_it_is(chromium, disks):
    with console_of(disks.cluster) as address, browser_page(chromium, address) as page:
        page.see("open the address that the console printed")
        while not page.complaints:  # the browser's own, of the refusals
            page.page.wait_for_event("console")


def browser_page(chromium, address):
    from contextlib import closing

    from tests.console.browsers import Page

    return closing(Page(chromium, address.split("#")[0]))


def test_the_page_loads_nothing_from_elsewhere():
    files = [each for each in Path(console.__file__).with_name("page").rglob("*") if each.is_file()]
    assert files
    for file in files:
        addresses = re.findall(r"https?://[^\s\"']+", file.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, file
