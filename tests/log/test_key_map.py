"""The last offset of each key, by hash, in sorted arrays: what a dict would say."""

import random

import numpy as np
import pyarrow as pa
import pytest

from kafka_on_spark.log import compactor as compactor_module
from kafka_on_spark.log.compactor import NOT_THERE, KeyMap


def add_all(keys: KeyMap, rows: list[tuple[bytes | None, int]]) -> None:
    keys.add(
        pa.array([key for key, _ in rows], pa.binary()),
        np.array([offset for _, offset in rows], np.int64),
    )


@pytest.fixture(params=["as they are", "first halves alike", "few first halves"])
def halves(request, monkeypatch):
    """Have many keys share the first half of their hashes, which is searched for."""
    real = compactor_module.key_hashes
    if request.param == "first halves alike":
        monkeypatch.setattr(
            compactor_module, "key_hashes", lambda keys: (real(keys)[0] * 0, real(keys)[1])
        )
    elif request.param == "few first halves":
        monkeypatch.setattr(
            compactor_module, "key_hashes", lambda keys: (real(keys)[0] % 3, real(keys)[1])
        )


@pytest.mark.usefixtures("halves")
def test_the_last_offset_of_each_key_is_what_a_dict_says():
    dice = random.Random(1)
    names = [b"%d" % number for number in range(50)] + [b"", None]
    keys, true = KeyMap(), {}
    for turn in range(4):
        rows = [(dice.choice(names), turn * 100 + place) for place in range(100)]
        dice.shuffle(rows)
        add_all(keys, rows)
        for key, offset in rows:
            true[key] = max(offset, true.get(key, NOT_THERE))
        asked = [*names, b"never"]
        found = keys.last_offsets(pa.array(asked, pa.binary()))
        expected = [NOT_THERE if key is None else true.get(key, NOT_THERE) for key in asked]
        assert found.tolist() == expected
    assert len(keys) == len(true.keys() - {None})
