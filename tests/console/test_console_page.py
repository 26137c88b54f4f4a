"""The page in a real browser: what it shows, what people do with it, and that all of them can."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from kafka_on_spark import console
from tests.cluster.disks import isr_of, new_disks, records
from tests.console.browsers import PHONE, Page, console_of, page_of

MANY = 2_000


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


def test_thousands_of_partitions_are_few_nodes_wherever_they_are_scrolled(chromium, disks):
    disks.cluster.create_topic("many", partitions=MANY, replication_factor=3)
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.page.get_by_role("button", name="partitions of many").click()
        page.page.locator("[data-name=many-0]").wait_for()
        scroll = page.page.locator(".scroll")

        scroll.evaluate("node => { node.scrollTop = node.scrollHeight; }")
        page.page.locator(f"[data-name=many-{MANY - 1}]").wait_for()

        assert page.page.locator("[data-name]").count() < 100
        found = page.page.get_by_role("searchbox", name="Find partitions")
        found.fill("many-77")
        page.page.locator("[data-name=many-779]").wait_for()
        page.see("11 of ")


def test_without_the_token_the_page_says_where_it_is(chromium, disks):
    with (
        console_of(disks.cluster) as address,
        closing(Page(chromium, address.split("#")[0])) as page,
    ):
        page.see("open the address that the console printed")
        while not page.complaints:  # the browser's own, of the refusals
            page.page.wait_for_event("console")


def test_the_page_loads_nothing_from_elsewhere():
    files = [each for each in Path(console.__file__).with_name("page").rglob("*") if each.is_file()]
    assert files
    for file in files:
        addresses = re.findall(r"https?://[^\s\"']+", file.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, file


# What people do with it


def test_the_keyboard_alone_leads_to_views_to_the_past_and_back(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        keys = page.page.keyboard

        keys.press("Tab")
        assert page.page.evaluate("document.activeElement.innerText") == "Skip to the view"
        page.page.get_by_role("slider").focus()
        keys.press("ArrowLeft")
        keys.press("ArrowLeft")
        page.page.wait_for_function("() => document.body.classList.contains('is-past')")
        keys.press("End")
        page.page.wait_for_function("() => !document.body.classList.contains('is-past')")
        page.page.get_by_role("link", name="Groups").focus()
        keys.press("Enter")

        page.see("billing")
        assert page.page.evaluate("document.activeElement.id") == "main"


def test_the_token_is_taken_out_of_the_address_and_outlives_a_reload(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        assert "token" not in page.page.url

        page.page.reload()

        page.see("committed to 9")
        page.page.evaluate("localStorage.setItem('kafka-on-spark token', 'of another console')")
        page.page.goto(address)  # in the same tab: no document is loaded for it
        page.page.wait_for_function("() => location.hash === '#/grid'")
        page.go("groups")
        page.see("billing")


def test_a_broker_in_the_grid_and_a_rack_lead_to_what_their_death_would_do(chromium):
    with new_disks(racks={1: "a", 2: "a", 3: "b"}) as disks:
        disks.cluster.create_topic("orders", partitions=1, replica_assignment={0: [1, 2, 3]})
        with console_of(disks.cluster) as address, page_of(chromium, address) as page:
            page.page.get_by_role("link", name="broker 1, active: what if it died").click()
            page.see("1 → 2")

            page.page.get_by_role("button", name="rack a").click()

            page.see("1 → 3")
            assert page.page.url.endswith("#/what-if?brokers=1,2")
            assert page.violations() == []


def test_a_metadata_root_that_is_away_is_told_until_it_is_back(chromium, disks):
    away = disks.base / "meta-away"
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")

        disks.metadata_root.rename(away)
        page.see("the metadata root does not answer")
        away.rename(disks.metadata_root)

        page.page.get_by_text("the metadata root does not answer").wait_for(state="hidden")
        disks.cluster.append("orders", [(b"k", b"v")])
        page.see("committed to 10")


# For everybody


VIEWS = [
    "grid",
    "topic?name=orders",
    "timeline",
    "groups",
    "groups?name=billing",
    "messages?topic=orders&partition=0",
    "what-if?brokers=1",
]


@pytest.mark.long
def test_every_view_is_for_everybody_in_light_dark_and_on_a_phone(chromium, disks):
    with console_of(disks.cluster) as address:
        for options in ({}, {"color_scheme": "dark", "viewport": PHONE}):
            with page_of(chromium, address, **options) as page:
                page.see("orders")
                for view in VIEWS:
                    page.go(view)
                    page.page.wait_for_function(
                        "() => document.querySelector('main').innerText.length > 40"
                    )
                    assert page.violations() == [], view
                    assert not page.is_too_wide, view


LOOKS = """nodes => nodes.map((node) => {
  const { backgroundColor, borderStyle, fill, stroke, strokeDasharray } = getComputedStyle(node);
  return [backgroundColor, borderStyle, fill, stroke, strokeDasharray].join(" ");
})"""


def test_where_the_system_has_its_own_few_colours_each_sign_still_looks_otherwise(chromium, disks):
    disks.take_down(3)
    with (
        console_of(disks.cluster) as address,
        page_of(chromium, address, forced_colors="active") as page,
    ):
        page.go("timeline")
        page.see("created by request")

        signs = page.page.locator(".legend i.c").evaluate_all(LOOKS)
        spans = [
            page.page.locator(f"svg.lanes rect.{kind}").first.evaluate_all(LOOKS)[0]
            for kind in ("lead", "sync", "out")
        ]

        assert len(set(signs)) == 4
        assert len(set(spans)) == 3
    disks.give_back(3)


def test_a_console_that_ends_is_told_and_what_was_seen_stays_and_is_not_called_live(
    chromium, disks
):
    with console_of(disks.cluster) as address:
        page = Page(chromium, address)
        page.see("now, live")
        page.see("committed to 9")

    page.see("Not followed: the console has ended, or is not reached")
    page.see("as it was when it was last followed")
    page.see("committed to 9")
    page.go("groups")
    page.page.locator("main").get_by_text("the console has ended, or is not reached").wait_for()
    page.close()
