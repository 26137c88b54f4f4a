"""The page for everybody: whether it breaks rules for people who read or use a screen otherwise."""

import pytest

from tests.console.browsers import PHONE, console_of, page_of

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
