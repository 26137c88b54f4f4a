"""All upkeep at once, as `maintain` asks for it: to its end, or a dry run that says what is due."""

from kafka_on_spark.log.upkeep_work import WorkDone
from kafka_on_spark.metadata.records import BrokerChangeRecord, BrokerState
from tests.controller.worked_rounds import Worked, begun


def test_maintain_waits_for_the_throttle_and_does_all_that_is_left():
    worked = begun(3, cluster={"log.cleaner.io.max.bytes.per.second": "1000"})
    left = {0: 2, 1: 0, 2: 1}

    def work(order):
        if order.address.broker_id != 1 or not order.bytes_max:
            return WorkDone()
        number = order.key.partition
        left[number] -= left[number] > 0
        return WorkDone(count=1, what="pieces", size_bytes=5, is_left=left[number] > 0)

    worked.work, worked.moved_bytes = work, 1000

    report = worked.upkeep.run_all()

    assert report.visited >= 9
    assert worked.clock.slept_ms


def test_a_dry_run_visits_each_replica_once_and_says_what_is_due():
    worked = Worked(2)
    worked.work = lambda order: WorkDone(count=2, what="pieces", size_bytes=5, is_left=True)

    report = worked.upkeep.run_all(is_dry_run=True)

    assert report.visited == len(worked.done) == 6
    assert all(order.is_dry_run for order in worked.done)
    assert str(report.rows[0]) == "orders-0 on broker 1: work: 2 pieces (5 bytes)"


def test_maintain_says_what_it_could_not_look_at_also_in_a_dry_run():
    worked = Worked(2)
    worked.submit(
        [
            BrokerChangeRecord(
                broker_id=broker_id,
                broker_epoch=broker.broker_epoch,
                broker_state=BrokerState.FENCED,
            )
            for broker_id, broker in worked.metadata.image.brokers.items()
            if broker_id == 2
        ]
    )
    missed = ("broker 2 is fenced: its root, and its replicas",)

    dry = worked.upkeep.run_all(is_dry_run=True)
    done = worked.upkeep.run_all()
    scoped = worked.upkeep.run_all("orders")

    assert (dry.visited, dry.rows, dry.is_left) == (4, (), True)
    assert dry.not_looked_at == scoped.not_looked_at == done.not_looked_at == missed
    assert worked.upkeep.run_share().not_looked_at == ()
