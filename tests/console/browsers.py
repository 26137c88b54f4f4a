"""A console in a thread of the test's process, and the system's Chromium that looks at it."""

import shutil
import threading
from contextlib import contextmanager

import pytest

from kafka_on_spark.console.console import Console

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 800}

ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
"""Of the browser. Without a GPU it would have one computed in a process of its own."""

AXE = "axe.run({ resultTypes: ['violations'] }).then(found => found.violations)"


def needed():
    """Return the browser and what drives it, or skip the test and say what is missing."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: no browser is driven"
    )
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium: `apt-get install chromium` brings one")
    return playwright, path


@contextmanager
def browser():
    playwright, path = needed()
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=path, args=ARGUMENTS, timeout=3 * PATIENCE_MS
        )
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def console_of(cluster, **arguments):
    console = Console(cluster, **arguments)
    thread = threading.Thread(target=console.run, name="console server", daemon=True)
    thread.start()
    try:
        yield console.address
    finally:
        console.end()
        thread.join()


class Page:
    """A page of a console, and whatever its browser complained of."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(viewport=options.pop("viewport", DESK), **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints = []
        self.foreseen = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append("a dialog"))
        self.page.goto(address)

    def _note(self, message):
        is_foreseen = any(each in message.text for each in self.foreseen)
        if message.type in ("error", "warning") and not is_foreseen:
            self.complaints.append(message.text)

    def go(self, view):
        """Show a view, by what stands behind "#/"."""
        self.page.evaluate("view => { location.hash = `#/${view}`; }", view)

    def see(self, text):
        place = self.page.get_by_text(text).first
        place.wait_for(state="visible")
        return place

    def violations(self):
        """Return what axe-core finds, by rule and node.

        A document gets it once: half a megabyte, which each time would be compiled anew.
        """
        from axe_playwright_python.base import AXE_SCRIPT

        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        found = self.page.evaluate(AXE)
        return [(each["id"], node["html"][:120]) for each in found for node in each["nodes"]]

    @property
    def is_too_wide(self):
        """Whether the page itself scrolls sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth > innerWidth")

    def close(self):
        self.context.close()


@contextmanager
def page_of(browser, address, **options):
    """Give a page that complained of nothing when it is closed."""
    page = Page(browser, address, **options)
    try:
        yield page
        assert page.complaints == [], page.complaints
    finally:
        page.close()


def until(tab, is_so):
    """Wait until something is so in this process, while the page goes on."""
    for _ in range(PATIENCE_MS // 20):
        if is_so():
            return
        tab.wait_for_timeout(20)
    raise AssertionError("it has not come to be so")
