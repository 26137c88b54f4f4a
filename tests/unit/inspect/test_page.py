"""The page: whole, self-contained, escaped, and of a bearable size."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.page import ENTRIES_MAX, cluster_page
from kafka_on_spark.visible import visible
from tests.builders import cluster_of, image_of, partition
from tests.unit.inspect.histories import LOSS_AND_RETURN, entry
from tests.unit.inspect.quorums import quorum_of

VOID = {"meta", "input", "br", "link", "img"}
EVIL = '<script>alert("x")</script>&\u202e\x1b'


class Reader(HTMLParser):
    """Checks that tags close, and keeps what a reader would see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.tags, self.cells, self.text = [], [], [], []
        self.rows = []
        self.feed(html)
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)
        if attributes.get("role") == "img":
            self.cells.append((attributes["class"], attributes["aria-label"]))
        if "data-n" in attributes:
            self.rows.append((attributes["data-n"], attributes["class"]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def test_the_page_has_every_partition_and_what_each_replica_is():
    image = image_of(partition("1 2 3", "1 2", hw=1234), partition("2 3", "3", None), fenced="3")

    page = Reader(cluster_page(image, LOSS_AND_RETURN).html)

    assert page.rows == [("orders-0", "row trouble"), ("orders-1", "row trouble")]
    assert page.cells == [
        ("c l", "broker 1: leader"),
        ("c s", "broker 2: in sync"),
        ("c f", "broker 3: broker does not answer, out of sync"),
        ("c o", "broker 2: out of sync"),
        ("c f", "broker 3: broker does not answer, in sync"),
    ]
    text = "".join(page.text)
    assert "committed to 1,234" in text
    assert "no leader, under-replicated (1 of 2)" in text
    assert "broker 1: probe failed" in text


def test_nothing_is_loaded_from_elsewhere():
    html = cluster_page(image_of(partition("1 2 3"))).html

    tags = Reader(html).tags
    assert not {tag for tag, _ in tags} & {"link", "img", "iframe", "object", "embed", "base"}
    assert not [attributes for _, attributes in tags if {"src", "href"} & attributes.keys()]
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttp", html)
    assert "default-src 'none'" in html


def test_text_from_the_cluster_is_escaped():
    image = image_of(partition("1 2 3"))
    brokers = {
        number: replace(each, root=f"memory://{EVIL}", rack=EVIL)
        for number, each in cluster_of("1 2 3").items()
    }
    image = replace(image, brokers=brokers, cluster_id=EVIL)

    page = cluster_page(image, [entry(0, 1, 0, "1 2 3", cause=EVIL)])

    reader = Reader(page.html)
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert not set("\u202e\x1b").intersection(page.html)
    assert (
        "".join(reader.text).count(visible(EVIL)) == 1 + 1 + 3 + 3 + 1
    )  # title, id, racks, roots, cause


def test_light_and_dark_and_print_are_thought_of():
    html = cluster_page(image_of(partition("1 2 3"))).html

    assert "prefers-color-scheme: dark" in html
    assert "color-scheme: light dark" in html
    assert "@media print" in html


def test_thousands_of_partitions_are_a_page_of_some_megabytes():
    image = image_of(*(partition("1 2 3", hw=10**9) for _ in range(5000)))

    html = cluster_page(image).html

    assert len(html) < 4_000_000
    assert len(Reader(html).rows) == 5000


def test_a_hundred_brokers_cost_replicas_and_not_empty_cells():
    image = image_of(partition("1 50 100"), ids=" ".join(map(str, range(1, 101))))

    page = Reader(cluster_page(image).html)

    assert len(page.cells) == 3
    assert ("body", {"style": "--brokers:100"}) in page.tags


def test_of_a_long_history_the_newest_are_listed():
    entries = [entry(number, 1, number, "1", f"cause {number}.") for number in range(300)]

    html = cluster_page(image_of(partition("1 2 3")), entries).html

    assert "the newest 200 of 300" in html
    assert html.index("cause 299.") < html.index("cause 100.")
    assert f"cause {300 - ENTRIES_MAX - 1}." not in html


def test_an_empty_cluster_has_a_page():
    image = replace(image_of(), topics={}, topic_ids={})

    assert "There is no such partition." in cluster_page(image).html


def test_a_notebook_gets_the_page_in_a_frame_of_its_own(tmp_path):
    page = cluster_page(image_of(partition("1 2 3")))

    page.save(tmp_path / "page.html")

    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    [(tag, attributes)] = Reader(page._repr_html_()).tags
    assert (tag, attributes["srcdoc"], attributes["sandbox"]) == (
        "iframe",
        page.html,
        "allow-scripts",
    )


def test_a_broker_that_is_none_any_more_is_shown_as_such():
    image = image_of(partition("1 9"), ids="1")
    assert BrokerId(9) not in image.brokers

    assert ">unregistered<" in cluster_page(image).html


def test_voters_stand_with_their_roles_and_why_one_can_not_be_read():
    quorum = quorum_of(0, 3, None)
    evil = replace(quorum.voters[2], problem=EVIL)

    page = cluster_page(
        image_of(partition("1 2 3")), quorum=replace(quorum, voters=(*quorum.voters[:2], evil))
    )

    text = " ".join(Reader(page.html).text)
    assert "Metadata voters" in text
    assert "1 leads 2 9 0 /m1" in text
    assert "2 follows 2 6 3 /m2" in text
    assert f"3 lost ? ? ? /m3 {visible(EVIL)}" in text
    assert '<div class="tile bad"><b>1</b>voters lost</div>' in page.html


def test_of_voters_nothing_is_said_where_nobody_asked_them():
    assert "voters" not in cluster_page(image_of(partition("1 2 3"))).html
