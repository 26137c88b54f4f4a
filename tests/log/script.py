"""A short life of the model of a compacted log, written down: one word a step."""

from tests.log.cut_reader import ImpossibleError
from tests.log.model import Log
from tests.log.model_checks import check


def run(log: Log, script: str) -> None:
    """Take the steps of a script, each of which must be possible, and check after each.

    `+a` appends a value of the key a, `-a` a tombstone, and `+a-b` both as one batch. A letter
    and a broker: `f` fetch, `l` leave, `j` join, `e` elect, `u` elect uncleanly, `c` rewrite a
    group, `C` all groups, `r` read, `v` read the table as of `p`, `x` what has changed since.
    `h` raises the high watermark, `d` decides, `t` waits.
    """
    steps = {"f": log.fetch, "l": log.leave, "j": log.join, "e": log.elect}
    steps |= {"u": log.elect_uncleanly, "c": log.apply, "r": log.read}
    steps |= {"C": lambda number: _finish(log, number)}
    steps |= {"v": log.cuts.read_table, "x": log.cuts.read_changes}
    plain = {
        "p": log.cuts.plan,
        "h": log.advance,
        "d": lambda: log.decide(sees_others=False),
        "t": log.wait,
    }
    for word in script.split():
        if word[0] in "+-":
            pairs = zip(word[::2], word[1::2], strict=True)
            done = log.append(*((key.encode(), sign == "-") for sign, key in pairs))
        else:
            done = plain[word]() if word in plain else steps[word[0]](int(word[1]))
        if not done:
            raise ImpossibleError(word)
        check(log)


def _finish(log: Log, number: int) -> bool:
    while log.apply(number):
        pass
    return True
