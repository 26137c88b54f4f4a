"""The page stays true and usable: in many tabs, after a loss, where what it shows is gone."""

import pytest

from tests.console.browsers import Page, console_of, page_of, until

HIDE = """isHidden => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
IN_ADDRESS = "() => location.search.startsWith('?at=')"
BACK_AND_FORWARD = "() => { history.back(); addEventListener('popstate', () => history.forward(), { once: true }); }"
TABS = 8
"""More than the connections that browsers give to one server."""


def test_tabs_that_nobody_sees_leave_the_server_to_the_one_that_is_seen(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.go("groups")
        page.see("billing")
        tab = page.page
        for _ in range(TABS):
            tab.evaluate(HIDE, True)
            tab = page.context.new_page()
            tab.goto(address)
            tab.get_by_text("committed to 9").first.wait_for()

        disks.cluster.alter_group_offsets("shipping", {("orders", 0): 4})
        page.page.evaluate(HIDE, False)

        page.see("shipping")
        assert page.page.get_by_text("Not followed").count() == 0


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


def test_the_header_which_is_printed_says_that_the_page_is_as_of_a_moment(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")

        page.page.get_by_role("button", name="the decision before").click()

        page.page.locator("header").get_by_text("As of 2").wait_for()
        page.page.get_by_role("button", name="Live").click()
        page.page.locator("header").get_by_text("As of 2").wait_for(state="detached")


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


def test_a_failure_that_passes_leaves_the_moment_in_the_address_and_what_was_chosen_meanwhile(
    chromium, disks
):
    held = []
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        tab, past = page.page, page.page.locator("header").get_by_text("As of 2")
        page.foreseen.append("503")
        page.see("committed to 9")
        before = tab.get_by_role("button", name="the decision before")
        before.click()
        past.wait_for()
        tab.wait_for_function(IN_ADDRESS)
        first = tab.url

        tab.route("**/api/grid?at=*", lambda route: held.append(route))
        before.click()
        until(tab, lambda: len(held) == 1)
        before.click()
        held[0].fulfill(status=503, body="a while")
        until(tab, lambda: len(held) == 2)
        held[1].continue_()
        tab.wait_for_function(f"() => location.href !== '{first}'")
        tab.unroute("**/api/grid?at=*")
        second = tab.url

        tab.route("**/api/grid?at=*", lambda route: route.fulfill(status=503, body="a while"))
        tab.reload()
        page.see("a while")
        assert tab.url == second
        tab.unroute("**/api/grid?at=*")
        tab.evaluate(HIDE, True)
        tab.evaluate(HIDE, False)
        past.wait_for()
        assert tab.url == second


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


def test_who_folds_a_topic_with_the_keyboard_stays_at_it(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        page.page.get_by_role("button", name="partitions of orders").focus()

        page.page.keyboard.press("Enter")
        page.page.get_by_text("committed to 9").wait_for(state="detached")
        page.page.keyboard.press("Enter")

        page.see("committed to 9")


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


def test_a_timeline_that_is_not_loaded_has_no_error_when_it_is_zoomed(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        page.page.route("**/api/timeline", lambda route: None)
        page.go("timeline")

        for name in ("zoom in", "zoom out", "earlier", "later", "all of the time"):
            page.page.get_by_role("button", name=name, exact=True).click()


def test_brokers_that_are_not_there_are_not_among_those_that_die(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")

        page.go("what-if?brokers=9,none,1")

        page.see("leaderships that would move")
        page.page.get_by_label("9 is not registered, and left out").wait_for()
        assert page.page.url.endswith("#/what-if?brokers=9,none,1")
        page.page.get_by_label("9 is not").uncheck()
        assert page.page.url.endswith("#/what-if?brokers=1")


def test_who_skips_to_the_view_keeps_its_address(chromium, disks):
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.go("groups")
        page.see("billing")

        page.page.keyboard.press("Tab")
        page.page.locator(".skip").press("Enter")

        assert page.page.evaluate("document.activeElement.id") == "main"
        assert page.page.url.endswith("#/groups")


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


def test_what_failed_while_the_page_was_of_the_past_is_loaded_when_it_is_followed_again(
    chromium, disks
):
    held = []
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        tab, said = page.page, page.page.get_by_text("Not followed: the console has not answered")
        page.foreseen.append("503")
        page.see("committed to 9")
        tab.get_by_role("button", name="the decision before").click()
        tab.locator("header").get_by_text("As of 2").wait_for()
        tab.route("**/api/groups?at=*", lambda route: route.fulfill(status=503, body="a while"))
        page.go("groups")
        tab.locator("main .trouble").wait_for()
        tab.unroute("**/api/groups?at=*")

        tab.route("**/api/events", lambda route: held.append(route))
        tab.evaluate(HIDE, True)
        tab.evaluate(HIDE, False)
        said.wait_for()
        held[0].continue_()

        said.wait_for(state="detached")
        tab.locator("main .trouble").wait_for(state="detached")


def test_a_grid_that_could_not_be_loaded_is_loaded_again_though_nothing_is_heard(chromium, disks):
    refused = []

    def refuse_once(route):
        refused.append(route)
        if len(refused) > 1:
            route.continue_()
        else:
            route.fulfill(status=503, body="a while")

    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.foreseen.append("503")
        page.see("committed to 9")
        page.page.route("**/api/grid", refuse_once)

        disks.cluster.create_topic("prices", partitions=1, replication_factor=3)

        page.see("prices")
        page.page.get_by_text("Not followed").wait_for(state="detached")


def test_that_there_is_no_topic_is_said_only_once_the_topics_are_known(chromium, disks):
    held = []
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        page.page.route("**/api/grid", lambda route: held.append(route))
        page.page.reload()
        page.go("messages")

        page.page.get_by_role("button", name="Show", exact=True).click()

        assert page.page.get_by_text("There is no topic.").count() == 0
        until(page.page, lambda: held)
        held[0].continue_()
        page.see("9 records, the newest first")
