"""The page for everybody: whether it breaks rules for people who read or use a screen otherwise."""

import pytest

from tests.cluster.consuming.polled import SOON
from tests.cluster.disks import new_disks
from tests.console.browsers import PHONE, console_of, needed, page_of

VIEWS = [
    "grid",
    "topic?name=orders",
    "timeline",
    "groups",
    "groups?name=billing",
    "messages?topic=orders&partition=0",
    "what-if?brokers=1",
]


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


def test_a_group_with_members_is_for_everybody(chromium, disks):
    with (
        disks.cluster.consumer("orders", group="reading", auto_offset_reset="earliest") as consumer,
        console_of(disks.cluster) as address,
    ):
        assert consumer.poll(SOON).num_rows == 9
        for options in ({}, {"color_scheme": "dark", "viewport": PHONE}):
            with page_of(chromium, address, **options) as page:
                page.go("groups?name=reading")
                page.page.get_by_role("cell", name="orders-0").first.wait_for()
                assert page.violations() == []
                assert not page.is_too_wide


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


def test_a_phone_shows_which_view_is_open_and_breaks_no_short_name(chromium):
    needed()
    with new_disks(racks={1: "b" * 90, 2: "b", 3: "c"}) as disks:
        disks.cluster.create_topic("orders", partitions=1, replication_factor=3)
        disks.cluster.alter_group_offsets("billing", {("orders", 0): 0})
        with (
            console_of(disks.cluster) as address,
            page_of(chromium, address, viewport=PHONE) as page,
        ):
            page.go("what-if")
            page.page.get_by_role("button", name="rack bbb").wait_for()
            assert box(page, "nav [aria-current]")["x"] < PHONE["width"] - 20
            assert not page.is_too_wide
            page.go("groups")
            page.page.get_by_role("link", name="billing").wait_for()
            line = box(page, "td .name")["height"]
            assert line == pytest.approx(21, abs=4)


def box(page, place):
    return page.page.locator(place).first.bounding_box()
