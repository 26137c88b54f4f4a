"""The page stays true and usable: in many tabs, after a loss, where what it shows is gone."""

from tests.console.browsers import Page, console_of, page_of

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
