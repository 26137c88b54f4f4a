"""Which programs run in a simulated cluster, as its plan asks for them."""

from collections.abc import Callable

from kafka_on_spark.log.batch import CLIENT_PREFIX
from tests.simulation.checks.checker import Checker
from tests.simulation.plan import Plan
from tests.simulation.programs.administrator import Admin
from tests.simulation.programs.clients import Appending, Producing, Reader, Values
from tests.simulation.programs.groups import Member
from tests.simulation.programs.jobs import Controller, Replicator, Tidier
from tests.simulation.programs.kafka_clients import KafkaClient, Sending
from tests.simulation.programs.program import Program, Stop
from tests.simulation.programs.tables import CutReader, TableReader
from tests.simulation.world.processes import Driver

Maker = Callable[[Driver], Program]
"""Makes a program in a process of its own."""


def _client(producer_id: str | None, checker: Checker, stop: Stop, values: Values) -> Maker:
    if producer_id is not None and producer_id.startswith(CLIENT_PREFIX):
        sending = Sending(producer_id)
        return lambda driver: KafkaClient(driver, checker, stop, values, sending)
    state = Producing(producer_id, {})
    return lambda driver: Appending(driver, checker, stop, values, state)


def programs_of(plan: Plan, checker: Checker, stop: Stop, values: Values) -> dict[str, Maker]:
    """Return the makers of a plan's programs, by name, in the order in which they start."""

    def maker(kind: type[Program]) -> Maker:
        return lambda driver: kind(driver, checker, stop)

    makers: dict[str, Maker] = {}
    for number, producer_id in enumerate(plan.clients, 1):
        makers[f"client{number}"] = _client(producer_id, checker, stop, values)
    for number in range(1, plan.controllers + 1):
        makers[f"controller{number}"] = maker(Controller)
    for number in range(1, plan.replicators + 1):
        makers[f"replicator{number}"] = maker(Replicator)
    for number in range(1, plan.tidiers + 1):
        makers[f"tidier{number}"] = maker(Tidier)
    if plan.compaction is not None:
        makers |= {"follower": maker(TableReader), "cutter": maker(CutReader)}
    for number in range(0 if plan.expiring is None else plan.expiring.groups):
        makers[f"member{number}"] = lambda driver, group=f"g{number}": Member(
            driver, checker, stop, group
        )
    return makers | {"reader": maker(Reader), "admin": maker(Admin)}
