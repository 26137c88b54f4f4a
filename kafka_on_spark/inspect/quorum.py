"""The metadata quorum for people: who leads, in which epoch, how far each voter is, who is lost.

As all voters were just asked (`Cluster.describe_quorum`): what a voter lacks stands in no log.
Texts, pictures and pages have the same words.
"""

from typing import Final

from kafka_on_spark.inspect.report import text_table
from kafka_on_spark.raft.quorum.description import QuorumDescription, VoterDescription

COLUMNS: Final = ("voter", "role", "epoch", "log end", "behind", "metadata root")
UNKNOWN: Final = "?"
"""What can't be asked of a voter that does not answer."""


def role_of(voter: VoterDescription) -> str:
    """Return what a voter is doing: "leads", "follows", "waits" (it answers and follows nobody, or
    another leader) or "lost" (it can't be read)."""
    if voter.problem is not None:
        return "lost"
    if voter.leads:
        return "leads"
    return "waits" if voter.lag is None else "follows"


def voter_rows(quorum: QuorumDescription) -> list[tuple[str, ...]]:
    """Return a row for each voter, as cells under COLUMNS."""
    return [
        (
            str(each.voter.key.node_id),
            role_of(each),
            _cell(each.epoch),
            _cell(each.log_end_offset),
            _cell(each.lag),
            each.voter.root,
        )
        for each in quorum.voters
    ]


def _cell(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def quorum_sentence(quorum: QuorumDescription) -> str:
    """Return who leads and how many voters answer, in a sentence without its full stop."""
    answer = sum(each.problem is None for each in quorum.voters)
    return (
        f"voter {quorum.leader.node_id} leads the metadata quorum in epoch {quorum.epoch};"
        f" {answer} of {len(quorum.voters)} voters answer"
    )


def problem_sentences(quorum: QuorumDescription) -> list[str]:
    """Return why voters can't be read, a sentence each."""
    return [
        f"voter {each.voter.key.node_id} can't be read: {each.problem}"
        for each in quorum.voters
        if each.problem is not None
    ]


def quorum_words(quorum: QuorumDescription) -> str:
    """Return the quorum in a line: who leads, and which voters lack what."""
    words = [quorum_sentence(quorum)]
    for each in quorum.voters:
        number, role = each.voter.key.node_id, role_of(each)
        if role == "lost":
            words.append(f"voter {number} can't be read")
        elif role == "waits":
            words.append(f"voter {number} follows nobody")
        elif each.lag:
            words.append(f"voter {number} lacks {each.lag} records")
    return "; ".join(words)


def is_whole(quorum: QuorumDescription) -> bool:
    """Return whether every voter answers and follows, or leads."""
    return all(role_of(each) in ("leads", "follows") for each in quorum.voters)


def quorum_text(quorum: QuorumDescription) -> str:
    """Return the quorum as text: who leads, a row for each voter, and why voters can't be read."""
    table = text_table(COLUMNS, voter_rows(quorum))
    return "\n".join([quorum_sentence(quorum), table, *problem_sentences(quorum)])
