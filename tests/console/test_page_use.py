"""What people do with the page: by keyboard, after a reload, while something moves or is lost."""

import asyncio
import os
import secrets
import socket
import threading
import time
import webbrowser
from contextlib import suppress

import pytest

from kafka_on_spark.cli.serve.browsing import opened_in_browser
from kafka_on_spark.console import answers, following, streaming
from kafka_on_spark.console.streaming import Subscribers
from tests.cluster.disks import new_disks
from tests.console.browsers import PATIENCE_MS, Page, console_of, needed, page_of


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


def test_what_opens_the_browser_leads_to_the_page(chromium, disks, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)

    with (
        console_of(disks.cluster) as address,
        opened_in_browser(address),
        page_of(chromium, opened[0]) as page,
    ):
        page.see("committed to 9")


def test_a_view_that_is_slow_to_answer_is_drawn_while_the_cluster_is_busy(
    chromium, disks, monkeypatch
):
    groups_view = answers.groups_view

    def slow(image):
        time.sleep(1.5)
        return groups_view(image)

    monkeypatch.setattr(answers, "groups_view", slow)
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")
        page.go("groups")
        drawn = page.page.get_by_text("There is no group.")
        last = time.monotonic() + PATIENCE_MS / 1000
        while not drawn.count():
            assert time.monotonic() < last, "it is not drawn as long as there are commits"
            disks.cluster.append("orders", [(b"k", b"v")])
            page.page.wait_for_timeout(50)
        assert drawn.count() == 1
        disks.cluster.alter_group_offsets("billing", {("orders", 0): 4})
        page.see("billing")


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


def test_a_console_that_says_nothing_any_more_is_told_until_it_goes_on(
    chromium, disks, monkeypatch
):
    """As one that hangs, or whose tunnel is gone: the connection stands, and nothing comes."""
    is_silent, listen = threading.Event(), Subscribers.listen

    async def listen_unless_silent(subscribers, hello):
        async for event in listen(subscribers, hello):
            while is_silent.is_set():
                await asyncio.sleep(0.05)
            yield event

    monkeypatch.setattr(Subscribers, "listen", listen_unless_silent)
    monkeypatch.setattr(streaming, "KEEP_ALIVE_S", 0.3)
    monkeypatch.setattr(following, "SILENCE_MS", 3_000)
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.see("committed to 9")

        is_silent.set()
        page.see("Not followed: the console says nothing any more")
        disks.cluster.append("orders", [(b"k", b"v")])
        is_silent.clear()

        page.page.get_by_text("Not followed").wait_for(state="hidden")
        page.see("committed to 10")


def test_a_console_that_says_nothing_after_its_greeting_is_told(chromium, disks, monkeypatch):
    """It counted as silent only after the time that a greeting may take."""

    def patient(route):
        found = route.fetch()
        text = found.text()
        patched.append(text.count("45_000"))
        route.fulfill(response=found, body=text.replace("45_000", "45_000_000"))

    patched = []

    monkeypatch.setattr(streaming, "KEEP_ALIVE_S", 3600)
    monkeypatch.setattr(following, "SILENCE_MS", 1_000)
    with console_of(disks.cluster) as address, page_of(chromium, address) as page:
        page.page.route("**/api.js", patient)
        page.page.reload()

        page.see("Not followed: the console says nothing any more")
    assert patched == [1]


def test_a_page_that_missed_what_happened_loads_its_view_anew(chromium, disks, monkeypatch):
    monkeypatch.setattr(secrets, "token_urlsafe", lambda count: "token")
    port = port_that_stays_free()
    with console_of(disks.cluster, port=port) as address:
        page = Page(chromium, address)
        page.go("groups")
        page.see("There is no group.")
    page.see("Not followed")
    disks.cluster.alter_group_offsets("billing", {("orders", 0): 4})

    with console_of(disks.cluster, port=port):
        page.see("billing")

    page.close()


def port_that_stays_free():
    """Return a free port below those that Linux gives who asks for any, to listen or to connect: one
    of them may be another process's by the time that a second console is to have it."""
    for port in range(20_000 + os.getpid() % 10_000, 32_768):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
