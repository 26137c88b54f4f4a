"""Make a cluster that lived through failures, to look at: ./spark-submit.sh jobs/failures.py

Five brokers in three racks lose disks and get them back, a partition waits for its last in-sync
replica, leaders move and move back. The notebook `jobs/notebooks/isr_history.ipynb` shows how one
looks into such a life; `--pictures` writes the pictures and the page of it.
"""

import argparse
import sys
from pathlib import Path

from jobs.failures_life import live
from kafka_on_spark import KafkaOnSparkError

COMMAND = "./spark-submit.sh jobs/failures.py"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder that is not there yet, or empty")
    parser.add_argument("--pictures", type=Path, help="folder to write pictures and the page to")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Make the cluster; return the exit code."""
    given = parse(arguments)
    if given.folder.exists() and any(given.folder.iterdir()):
        print(f"{COMMAND}: {given.folder} is not empty: name another folder", file=sys.stderr)
        return 1
    try:
        with live(given.folder, say=print) as cluster:
            if given.pictures is not None:
                # Matplotlib is an extra: only those who want pictures need it.
                from jobs.failures_pictures import draw

                draw(cluster, given.pictures)
    except (KafkaOnSparkError, ImportError) as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return 1
    print(f'Cluster.open("{cluster.root}") opens it.')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
