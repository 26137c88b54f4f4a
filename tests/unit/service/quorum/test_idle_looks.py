"""Which voters an idle read looks at: it is made again and again while nothing happens."""


def test_an_idle_read_asks_a_voter_that_answered_rather_than_one_that_failed(quorum, process):
    quorum.roots[1].is_offline = True
    process.names()
    quorum.roots[1].is_offline = False
    before = [root.looks for root in quorum.roots]

    process.names()

    assert [root.looks - b for root, b in zip(quorum.roots, before, strict=True)] == [1, 0, 1]
