"""The page stays true and usable: in many tabs, after a loss, where what it shows is gone."""

import pytest

from tests.console.browsers import Page, console_of, page_of

HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
IN_ADDRESS = "() => location.search.startsWith('?at=')"
BACK_AND_FORWARD = "() => { history.back(); addEventListener('popstate', () => history.forward(), { once: true }); }"


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


def test_the_moment_stays_through_reloads_and_back(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        tab, past = page.page, page.page.locator("header").get_by_text("As of 2")
        page.see("committed to 9")
        tab.get_by_role("button", name="the decision before").click()
        past.wait_for()
        told = tab.locator("header").inner_text()
        tab.wait_for_function(IN_ADDRESS)

        tab.reload()
        past.wait_for()
        assert tab.locator("header").inner_text() == told

        page.go("groups")
        tab.get_by_role("button", name="Live").click()
        past.wait_for(state="detached")
        tab.wait_for_function(f"() => !({IN_ADDRESS})()")
        tab.go_back()
        past.wait_for()
        assert tab.locator("header").inner_text() == told

        tab.evaluate("() => history.forward()")
        past.wait_for(state="detached")
        tab.evaluate(BACK_AND_FORWARD)
        tab.wait_for_timeout(500)
        assert past.count() == 0
        assert not tab.evaluate(IN_ADDRESS)


@pytest.mark.parametrize("none", ["999999", "x", "-1", "", "9" * 30])
def test_an_address_of_no_moment_shows_the_present(chromium, disks, none):
    with console_of(disks.cluster) as address:
        page = Page(chromium, address)
        page.see("committed to 9")

        page.page.goto(f"{address.split('#')[0]}?at={none}")

        page.see("committed to 9")
        page.page.locator("header").get_by_text("metadata offset").wait_for()
        if none == "999999":  # that there is none is told, and stays
            page.page.evaluate(HIDE, True)
            page.page.evaluate(HIDE, False)
            page.page.wait_for_timeout(300)
            for place in ("output", "#said"):
                page.page.locator(place).get_by_text("can't go to metadata offset").wait_for()
            assert not page.page.evaluate(IN_ADDRESS)
        assert page.page.locator("header").get_by_text("As of 2").count() == 0
        assert [each for each in page.complaints if "400" not in each] == []
        page.close()


def test_the_figures_of_a_topic_are_those_of_its_partitions_when_more_than_rows_changes(
    chromium, disks
):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.go("topic?name=orders")
        page.see("Offsets kept")

        disks.cluster.add_partitions("orders", to=3)

        page.page.locator("dl.facts").get_by_text("3", exact=True).nth(1).wait_for()
        for _ in range(3):
            disks.cluster.append("orders", [(b"k", b"v")])
        disks.cluster.drain_broker(1)
        page.page.locator("dl.facts").get_by_text("12", exact=True).wait_for()


def test_a_view_that_could_not_be_loaded_is_loaded_when_the_metadata_root_is_back(chromium, disks):
    away = disks.base / "meta-away"
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.foreseen.append("503")
        page.see("committed to 9")
        disks.metadata_root.rename(away)
        page.see("Not followed")
        page.go("messages?topic=orders")
        trouble = page.page.locator("main .trouble")
        trouble.wait_for()

        away.rename(disks.metadata_root)

        trouble.wait_for(state="detached")
