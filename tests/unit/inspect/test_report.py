"""Text tables: aligned, numbers to the right, nothing for nobody."""

from kafka_on_spark.inspect.report import broker_list, text_table, topic_text
from kafka_on_spark.service.describe.descriptions import describe
from tests.builders import TOPIC, image_of, partition


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_to_the_right():
    text = text_table(("name", "count"), [("a", 7), ("longer", 1234567)])

    assert text.splitlines() == [
        "name   ·   count",
        "a      ·       7",
        "longer · 1234567",
    ]


def test_table_without_rows_is_its_heading():
    assert text_table(("name", "count"), []) == "name · count"


def test_an_empty_list_of_brokers_is_none():
    assert broker_list([3, 1]) == "3 1"
    assert broker_list([]) == "none"


def test_topic_has_a_line_a_partition_with_leader_isr_and_offsets():
    image = image_of(
        partition("1 2 3", "2 1", epoch=4, hw=10, leo=12, start=3),
        partition("2 3 1", "2", None, epoch=7),
    )

    text = topic_text(describe(image, TOPIC))

    cells = [[cell.strip() for cell in line.split("·")] for line in text.splitlines()]
    assert cells[1] == ["0", "1", "4", "1 2 3", "1 2", "3", "10", "12"]
    assert cells[2] == ["1", "none", "7", "2 3 1", "2", "0", "0", "0"]
