"""What people do with the page: by keyboard, after a reload, while something moves or is lost."""

import pytest

from tests.cluster.disks import new_disks
from tests.console.browsers import console_of, needed, page_of


@pytest.fixture
def disks():
    needed()
    with new_disks(4) as disks:
        disks.cluster.create_topic("orders", partitions=1, replica_assignment={0: [1, 2, 3]})
        disks.cluster.append("orders", [(b"k%d" % n, b"v%d" % n) for n in range(9)])
        yield disks


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

        page.see("There is no group.")
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
        page.see("There is no group.")


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
