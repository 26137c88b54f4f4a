"""What the console's page takes with 10,000 partitions: the first view, an event, a scroll."""

import shutil
import threading
import time
from typing import Any

from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster
from kafka_on_spark.console.console import Console

PARTITIONS = 10_000
SCROLLS = 100
SCROLL_PIXELS = 2500
FRAME_MS = 16

LONG_TASKS = """() => {
  window.tasks = [0];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)))
    .observe({ type: "longtask" });
}"""
SHOWS = """(offset) => document.querySelector("header").innerText.replaceAll(",", "")
  .includes(`offset ${offset}`)"""


def console(bench: Bench) -> list[Row]:
    """Measure the page in the system's Chromium; no row where that is missing."""
    path = shutil.which("chromium")
    if path is None:
        say("  there is no Chromium: nothing is measured")
        return []
    from playwright.sync_api import sync_playwright

    with bench.make_cluster("console") as cluster, sync_playwright() as driver:
        cluster.create_topic("many", partitions=PARTITIONS, replication_factor=3)
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        served = Console(cluster)
        thread = threading.Thread(target=served.run, name="console server", daemon=True)
        thread.start()
        try:
            address = served.address
            _first_view(browser, address)
            views = [_first_view(browser, address) for _ in range(bench.runs)]
            page = _page(browser)
            _show(page, address)
            events = [_event(page, cluster) for _ in range(bench.runs)]
            longest = [_scroll_grid(page) for _ in range(bench.runs)]
            cluster.alter_group_offsets("all", {("many", each): 0 for each in range(PARTITIONS)})
            of_group = [_scroll_group(page) for _ in range(bench.runs)]
        finally:
            served.end()
            thread.join()
            browser.close()
    name = f"console, {PARTITIONS:,} partitions"
    second, no_stutter = Budget(bound=1, on="value"), Budget(bound=200, on="value")
    longest_task = f"{name}: longest task while {{}} is scrolled (0: none over 50)"
    return [
        row(f"{name}: first view", views, "s", budget=second),
        row(f"{name}: an event on the page after its commit", events, "s", budget=second),
        row(longest_task.format("it"), longest, "ms", budget=no_stutter),
        row(longest_task.format("a group of them"), of_group, "ms", budget=no_stutter),
    ]


def _page(browser: Any) -> Any:
    return browser.new_context(viewport={"width": 1280, "height": 800}).new_page()


def _show(page: Any, address: str) -> None:
    """Open the console, until the page shows its topics."""
    page.goto(address, wait_until="commit")
    page.locator(".row.topic").first.wait_for()


def _first_view(browser: Any, address: str) -> float:
    page = _page(browser)
    took = seconds(lambda: _show(page, address))
    page.context.close()
    return took


def _event(page: Any, cluster: Cluster) -> float:
    """Return how long after a commit the page shows its offset."""
    cluster.append("many", [{"value": b"v", "partition": 0}])
    began, offset = time.monotonic(), cluster._node.metadata.image.offset
    page.wait_for_function(SHOWS, arg=offset)
    return time.monotonic() - began


def _scroll_grid(page: Any) -> float:
    """Return the longest task of the page while the grid is scrolled, ms."""
    page.mouse.move(640, 600)
    page.mouse.wheel(0, -SCROLLS * SCROLL_PIXELS)  # what is above is not in the page
    fold = page.get_by_role("button", name="partitions of many")
    if fold.get_attribute("aria-expanded") == "false":
        fold.click()
    return _longest_task(page)


def _scroll_group(page: Any) -> float:
    """Return the longest task of the page while the places of a group are scrolled, ms."""
    page.evaluate("() => { location.hash = '#/groups'; }")
    page.get_by_role("link", name="all", exact=True).click()
    page.get_by_label("the next records of many-0", exact=True).wait_for()
    page.locator(".scroll").hover()
    return _longest_task(page)


def _longest_task(page: Any) -> float:
    """Return the longest task of the page while what is below the mouse is scrolled, ms."""
    page.evaluate(LONG_TASKS)
    for _ in range(SCROLLS):
        page.mouse.wheel(0, SCROLL_PIXELS)
        page.wait_for_timeout(FRAME_MS)
    longest: float = page.evaluate("() => Math.max(...tasks)")
    return longest
