"""The page stays true and usable: in many tabs, after a loss, where what it shows is gone."""

from tests.console.browsers import Page, console_of


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
