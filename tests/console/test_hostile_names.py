"""Nothing that users wrote is ever markup, nor changes how the text beside it reads: in a browser."""

import re
from urllib.parse import quote, quote_plus

from kafka_on_spark import Record
from tests.cluster.disks import new_disks
from tests.console.browsers import console_of, needed, page_of

EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>\u202e&amp;'
SHOWN = EVIL.replace("\u202e", "\\u202e")
WORDS_OF_THE_PAGE = ("fields", "base64")
"""What the page reads and does not show."""

TOPIC = quote(f"orders{EVIL}", safe="")
GROUP = quote(f"billing{EVIL}", safe="")
VIEWS = [
    f"topic?name={TOPIC}",
    "grid",
    "timeline",
    f"timeline?topic={TOPIC}&partition=0",
    "groups",
    f"groups?name={GROUP}",
    f"messages?topic={TOPIC}&partition=0",
    "what-if?brokers=1",
]


def spoiled(answer):
    """Return an answer with something hostile behind each text, as if users had written it."""
    if isinstance(answer, dict):
        return {
            key: each if key in WORDS_OF_THE_PAGE else spoiled(each) for key, each in answer.items()
        }
    if isinstance(answer, list):
        return [spoiled(each) for each in answer]
    return answer + EVIL if isinstance(answer, str) else answer


def spoil(route):
    """Have the console asked for what it has, and spoil its answer."""
    url = route.request.url
    for each in (EVIL, SHOWN):
        url = url.replace(quote_plus(each), "")
    answer = route.fetch(url=url)
    route.fulfill(response=answer, json=spoiled(answer.json()))


def show(page, view):
    """Show another view, with nothing left of the one before."""
    page.page.evaluate("() => document.querySelector('main').replaceChildren()")
    page.go(view)


def see_no_markup(page):
    """Wait for something hostile, and see that it is text."""
    page.page.locator("main").get_by_text("onerror").first.wait_for(state="attached")
    assert page.page.locator("body img, body script").count() == 0
    assert "\u202e" not in page.page.content()  # attributes and the title included


def test_no_text_of_any_answer_is_markup(chromium):
    needed()
    with new_disks(4) as disks:
        cluster = disks.cluster
        cluster.create_topic(
            "orders", replica_assignment={0: [1, 2, 3]}, configs={"max.message.bytes": "9999"}
        )
        cluster.append("orders", [Record("k", "v", headers=[("h", b"1")])])
        cluster.alter_group_offsets("billing", {("orders", 0): 0})
        cluster.reassign({("orders", 0): [2, 3, 4]})
        with console_of(cluster) as address, page_of(chromium, address) as page:
            page.see("orders")
            page.page.route(re.compile("/api/(?!events)"), spoil)
            page.page.reload()
            for view in VIEWS:
                show(page, view)
                see_no_markup(page)
