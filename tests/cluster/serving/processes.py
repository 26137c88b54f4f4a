"""Processes of `kafka-on-spark serve`, as a test holds them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
WAIT_S_MAX = 180
STOP_S = 120
"""For a clean end, which resigns and removes what a process has written: it takes moments, and much
longer where the process hardly runs. After that it would end without."""


def wait_for(condition):
    until = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


class Served:
    def __init__(self, root, *options):
        command = [sys.executable, "-m", "kafka_on_spark.cli", "serve", "--cluster", str(root)]
        self.process = subprocess.Popen(
            [
                *command, "--health-port", "0", "--log-format", "json",
                "--stop-seconds", str(STOP_S), *options,
            ],
            cwd=REPOSITORY,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def log(self):
        return [json.loads(each) for each in self.lines if each.startswith("{")]

    @property
    def messages(self):
        return [each["message"] for each in self.log]

    @property
    def address(self):
        [address] = wait_for(
            lambda: [each.split()[-1] for each in self.messages if each.startswith("answers ")]
        )
        return address

    def ask(self, path):
        try:
            with urllib.request.urlopen(f"{self.address}{path}", timeout=WAIT_S_MAX) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def becomes(self, role):

        def is_it():
            status, body = self.ask("/readyz")
            return status == 200 and body["role"] == role and body

        return wait_for(is_it)

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self, number=signal.SIGTERM):
        """Send it a signal; return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        code = self.process.wait(WAIT_S_MAX)
        self._reader.join(WAIT_S_MAX)
        return code


@contextmanager
def served(root, count=1, options=()):
    """Give so many processes, all killed at the end."""
    started = []
    try:
        started += [Served(root, *options) for _ in range(count)]
        yield started
    finally:
        for each in started:
            if each.process.poll() is None:
                each.process.kill()
            each.wait()
            each.process.stderr.close()
