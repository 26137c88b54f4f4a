"""Changes in the page: what came of them is always told, and none is made in the past."""

import pytest

from kafka_on_spark.cli.serve.console import decided
from tests.console.browsers import console_of, page_of


@pytest.fixture
def page(chromium, disks):
    with (
        console_of(disks.cluster, decide=decided) as address,
        page_of(chromium, address) as page,
    ):
        page.go("brokers")
        page.see("broker 2 dies")
        yield page


def click(page, name):
    page.page.get_by_role("button", name=name, exact=True).click()


def test_what_came_of_a_change_is_told_to_who_has_closed_it_meanwhile(page):
    held = []
    click(page, "drain broker 2")
    page.see("A dry run")
    page.page.route(
        "**/api/changes", lambda route: route.continue_() if held else held.append(route)
    )
    click(page, "Commit")
    page.page.get_by_role("button", name="Close").wait_for()  # nothing can be cancelled any more

    page.page.keyboard.press("Escape")
    page.page.get_by_role("dialog").wait_for(state="detached")
    [route] = held
    click(page, "drain broker 3")
    page.see("A dry run")
    route.continue_()

    page.see("Committed.")
    dialogs = page.page.locator("dialog")
    assert dialogs.count() == 2
    assert page.violations() == []
    ids = dialogs.evaluate_all("nodes => nodes.map(node => node.getAttribute('aria-labelledby'))")
    assert len(set(ids)) == 2
    # It may be opened again before the page is told that it was closed.
    dialogs.last.evaluate("node => { node.close(); node.showModal(); }")
    page.page.wait_for_timeout(100)
    assert dialogs.count() == 2


def test_who_closes_a_change_stays_where_it_was_asked_for(page):
    click(page, "drain broker 2")
    page.see("A dry run")
    click(page, "Commit")
    page.see("Committed.")
    page.page.get_by_role("button", name="resume broker 2", include_hidden=True).wait_for()

    page.page.keyboard.press("Escape")

    focused = "() => document.activeElement.getAttribute('aria-label')"
    page.page.wait_for_function(f"() => ({focused})() === 'resume broker 2'")


def test_no_change_is_asked_for_in_the_past(page):
    """Not either by a button that is still there while the view of the past is loaded."""
    asked = []
    page.page.route("**/api/brokers?at=*", lambda route: None)
    page.page.route("**/api/changes", lambda route: asked.append(route))
    click(page, "the decision before")
    page.page.wait_for_function("() => document.body.classList.contains('is-past')")

    click(page, "drain broker 2")

    page.page.wait_for_timeout(200)
    assert page.page.get_by_role("dialog").count() == 0
    assert asked == []


def test_a_change_that_is_shown_is_not_offered_any_more_when_back_leads_to_the_past(page):
    in_past = "document.body.classList.contains('is-past')"
    click(page, "the decision before")
    page.page.wait_for_function("() => location.search.startsWith('?at=')")
    page.go("groups")
    click(page, "Live")
    page.page.wait_for_function(f"() => !{in_past} && !location.search")
    page.go("brokers")
    click(page, "drain broker 2")
    page.see("A dry run")

    page.page.evaluate("() => history.go(-2)")
    page.page.wait_for_function(f"() => {in_past}")

    page.page.locator("dialog").wait_for(state="detached")


def test_a_button_that_does_nothing_looks_like_it(page):
    click(page, "Elect preferred leaders")
    page.see("Nothing would change.")

    colour = "node => getComputedStyle(node).backgroundColor"
    commit = page.page.get_by_role("button", name="Commit").evaluate(colour)
    cancel = page.page.get_by_role("button", name="Cancel").evaluate(colour)

    assert commit == cancel


def test_a_name_with_characters_that_can_not_be_seen_is_typed_as_it_is_shown(page, disks):
    disks.cluster.alter_group_offsets("bil\u200bling", {("orders", 0): 0})
    page.go("groups?name=bil%E2%80%8Bling")
    click(page, "Delete all its offsets")
    page.see("This can't be undone")
    commit = page.page.get_by_role("button", name="Commit")
    typed = page.page.get_by_label("Type bil")

    typed.fill("billing")
    assert commit.is_disabled()
    typed.fill("bil\\u200bling")

    assert commit.is_enabled()


def test_what_is_typed_stays_while_the_topic_is_written_to(page, disks):
    page.go("topic?name=orders")
    page.page.get_by_text("Change", exact=True).click()
    setting = page.page.get_by_label("setting", exact=True)
    setting.fill("retention")

    disks.cluster.append("orders", [("k", "v")])
    page.page.locator("dl.facts").get_by_text("10", exact=True).wait_for()

    assert setting.input_value() == "retention"
    assert setting.evaluate("node => node === document.activeElement")
