"""What retention removes of a log: whole batches, the oldest first."""

import pytest

from kafka_on_spark.controller.partitions.log_start import retained_from
from kafka_on_spark.ids import Offset
from tests.conformance.logs import batch_of, log_of

AGES = log_of(
    [batch_of(base, 0, 2, timestamp_ms=1000 * place) for place, base in enumerate((0, 2, 4, 6))]
)


# fmt: off
RETAINED = [  # now   high watermark  ms    bytes  start
    pytest.param(9000, 8, None, None, 0, id="keeps-all"),
    pytest.param(9000, 8, 7500, None, 4, id="by-age"),
    pytest.param(9000, 8, 8000, None, 2, id="exactly-as-old-as-allowed-stays"),
    pytest.param(9000, 8, 0,    None, 8, id="all-too-old-the-log-is-emptied"),
    pytest.param(9000, 5, 0,    None, 4, id="never-above-the-high-watermark"),
    pytest.param(9000, 8, None, 4,    4, id="by-size"),
    pytest.param(9000, 8, None, 3,    4, id="what-is-left-has-at-least-so-much"),
    pytest.param(9000, 8, None, 5,    2, id="as-long-as-the-rest-has-as-much"),
    pytest.param(9000, 8, None, 0,    8, id="no-bytes-are-kept"),
    pytest.param(9000, 8, 7500, 6,    4, id="by-size-and-then-by-age"),
]
# fmt: on


@pytest.mark.parametrize("now_ms, high_watermark, age, size, start", RETAINED)
def test_whole_batches_leave_oldest_first(now_ms, high_watermark, age, size, start):
    found = retained_from(
        AGES,
        high_watermark=Offset(high_watermark),
        now_ms=now_ms,
        retention_ms=age,
        retention_bytes=size,
    )

    assert found == start
