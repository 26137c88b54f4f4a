"""What can't be done is refused in one sentence, and nothing of it is done."""

from tests.cli.conftest import CommandLine


def test_cluster_that_is_not_named_is_asked_for(monkeypatch):
    monkeypatch.delenv("KAFKA_ON_SPARK_CLUSTER", raising=False)

    refusal = CommandLine("").refused("topics", "--list")

    assert "--cluster" in refusal
    assert "KAFKA_ON_SPARK_CLUSTER" in refusal


def test_help_says_what_each_verb_does_and_no_arguments_are_a_question_for_it(call):
    assert call() == call("--help")
    assert "leader-election" in call("--help")
    assert "--under-min-isr-partitions" in call("topics", "--help")
