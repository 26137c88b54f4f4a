"""What is tried on hosts, a function each: it returns what was found, or raises a WrongError."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tests.rigs.hosts.bed import (
    BASES,
    CREDENTIALS,
    IMAGE,
    JARS,
    MADE,
    NAMED,
    SPARK,
    Bed,
    WrongError,
    end_of,
    wait_for,
)
from tests.rigs.hosts.hosts import SHARED

Scenario = Callable[[Path], list[str]]
CUT_S, SLOW_MS = 60, 100

# An executor counts as lost while its host is cut off, so it comes back beside its replacement.
QUICK_TO_MISS: Final = {
    "spark.network.timeout": "20s", "spark.network.timeoutInterval": "4s",
    "spark.executor.heartbeatInterval": "4s",
}  # fmt: skip
SPECULATION: Final = {
    "spark.speculation": "true", "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.2", "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "1s",
}  # fmt: skip
DYNAMIC: Final = {
    "spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "3s",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
}  # fmt: skip


def everything(folder: Path, *, way: str) -> list[str]:
    """What users run: the jobs, a stream, a reassignment, a view, fsck; on a store and on a mount."""
    found = []
    with Bed(folder, way) as bed:
        bed.start_spark()
        (bed.shared / "in").mkdir()
        for number in range(3):
            lines = [json.dumps({"k": n % 7, "v": f"{number}-{n}"}) for n in range(200)]
            (bed.shared / f"in/{number}.json").write_text("\n".join(lines))
        jars = ",".join(f"{JARS}/{each.name}" for each in (MADE / "jars").glob("[!b]*.jar"))
        for place, base in BASES.items():
            options, root = (
                (f"--jars {jars}", f"--root {base}/quick") if place == "store" else ("", "")
            )
            quick = f"jobs/quickstart.py --dir {SHARED}/quick-{place} --rows 4000 {root}"
            found += end_of(bed.submit(f"quickstart-{place}", quick))
            steps = f"append stream reassign append check view fsck --id steps-{place}"
            found += end_of(bed.steps(f"steps-{place}", steps, base, options))
            load = f"jobs/append.py {SHARED}/in --format json --key k --value v --id load --topic orders"
            load += f" --cluster {base}/rig/metadata --checkpoint {SHARED}/lists-{place}"
            found += end_of(bed.submit(f"load-{place}", load))
            found += end_of(bed.submit(f"load-{place}-again", load))
    for line in found:
        if ": Number 0:" in line and ": Number 0: 600 records" not in line:
            raise WrongError(f"jobs/append.py has 600 rows to append: {line}")
    return found


def plain(folder: Path, *, steps: str, settings: dict[str, str]) -> list[str]:
    with Bed(folder) as bed:
        bed.start_spark()
        return end_of(bed.steps("steps", steps, settings=settings))


def fault(folder: Path, *, do: Callable[[Bed], None], settings: dict[str, str]) -> list[str]:
    """Do something to h2 while it has a task of an append; append on, also after it; check all."""
    with Bed(folder) as bed:
        bed.start_spark()
        steps = "append append healed append check fsck --pause 0.5"
        driver = process, _ = bed.steps("steps", steps, settings=settings)
        wait_for(lambda: any(bed.marks.glob("h2-*")) or process.poll() is not None, "a task on h2")
        do(bed)
        (bed.shared / "healed").touch()
        return end_of(driver)


def cut(bed: Bed, *, out_ms: float | None, in_ms: float | None) -> None:
    bed.link("h2", out_ms, in_ms)
    time.sleep(CUT_S)
    bed.heal("h2")


def driver_killed(folder: Path) -> list[str]:
    """The driver's host dies in the middle of an append; once it is up, the job is run again."""
    with Bed(folder) as bed:
        bed.start_spark()
        steps = "append append check fsck --pause 0.5"
        process, _ = bed.steps("steps", steps)
        wait_for(lambda: any(bed.marks.glob("h*")) or process.poll() is not None, "a task")
        bed.kill("h0")
        bed.boot("h0")
        return end_of(bed.steps("again", steps))


def yarn(folder: Path, *, mode: str) -> list[str]:
    # YARN gives its containers another home, so the files of credentials are named.
    files = {
        "AWS_SHARED_CREDENTIALS_FILE": f"{CREDENTIALS}/credentials",
        "AWS_CONFIG_FILE": f"{CREDENTIALS}/config",
    }
    settings = {f"spark.executorEnv.{key}": value for key, value in files.items()}
    settings |= {"spark.yarn.jars": f"local:{SPARK}/jars/*", "spark.executor.instances": "2"}
    settings["spark.yarn.stagingDir"] = f"file://{SHARED}/staging"
    if mode == "cluster":  # the driver runs where the image is, and the launcher's Python is not
        its = {**files, "PYSPARK_PYTHON": f"{IMAGE}/bin/python", "KAFKA_ON_SPARK_STORAGE": NAMED}
        settings |= {f"spark.yarn.appMasterEnv.{key}": value for key, value in its.items()}
        settings["spark.pyspark.driver.python"] = f"{IMAGE}/bin/python"
    options, found = f"--master yarn --deploy-mode {mode}", []
    with Bed(folder) as bed:
        bed.start_yarn()
        for place, base in BASES.items():
            steps = f"append check fsck --id yarn-{place}"
            found += end_of(bed.steps(f"steps-{place}", steps, base, options, settings))
        if mode == "cluster":
            printed = (bed.folder / "h1").glob("target/**/container_*/stdout")
            lines = [line for each in printed for line in each.read_text().splitlines()]
            found = [each.removeprefix("STEP ") for each in lines if each.startswith("STEP ")]
    if sum("check: 3000 rows" in each for each in found) != len(BASES):
        raise WrongError(f"not all of what was appended was read: {found}")
    return found


SCENARIOS: Final[dict[str, Scenario]] = {
    "image": partial(everything, way="image"),
    "archive": partial(everything, way="archive"),
    "killed": partial(fault, do=lambda bed: bed.kill("h2"), settings={}),
    "driver-killed": driver_killed,
    "cut": partial(fault, do=partial(cut, out_ms=None, in_ms=None), settings=QUICK_TO_MISS),
    "cut-out": partial(fault, do=partial(cut, out_ms=None, in_ms=0), settings=QUICK_TO_MISS),
    "cut-in": partial(fault, do=partial(cut, out_ms=0, in_ms=None), settings=QUICK_TO_MISS),
    "slow": partial(fault, do=partial(cut, out_ms=SLOW_MS, in_ms=SLOW_MS), settings={}),
    "speculation": partial(
        plain,
        steps="append append append twice check fsck --pause 0.1 --slow h3",
        settings=SPECULATION,
    ),
    "dynamic": partial(
        plain, steps="append idle append idle append idle check fsck --pause 0.05", settings=DYNAMIC
    ),
    "yarn-client": partial(yarn, mode="client"),
    "yarn-cluster": partial(yarn, mode="cluster"),
}
