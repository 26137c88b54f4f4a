"""Hosts of this machine: namespaces, each with an address, a name and a root file system of its own.

Every namespace is held by a process that is killed when the rig ends, however that ends, and
processes, mounts and interfaces end with their namespace: so nothing is left.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tests.rigs.rig import RigError

NAMES: Final = ("h0", "h1", "h2", "h3", "store")
ADDRESSES: Final = {name: f"10.77.0.{10 + at}" for at, name in enumerate(NAMES)}
SHARED: Final = "/mnt/shared"
DIES_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
VARIABLES: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}

# $1: the root, $2: the name, $3: a folder for /tmp, then SOURCE TARGET MODE of each further mount.
ROOT: Final = r"""
set -e
root=$1 name=$2
mount --make-rprivate /
mount -t tmpfs -o size=64m,mode=755 "$name" "$root"
for each in usr bin sbin lib lib64; do
  if [ -L "/$each" ]; then cp -P "/$each" "$root"; elif [ -d "/$each" ]; then set -- "$@" "/$each" "/$each" ro; fi
done
mkdir -p "$root"/{proc,dev,etc,root,run,opt,tmp,var}
ln -s ../tmp "$root/var/tmp"
cp -a /etc/. "$root/etc"
cp "$3/hosts" "$root/etc/hosts"
: >"$root/etc/resolv.conf"
hostname "$name"
mount --rbind /dev "$root/dev"
mount --bind "$3" "$root/tmp"
shift 3
while [ $# -gt 0 ]; do
  mkdir -p "$root$2" && mount --bind -o "$3" "$1" "$root$2"
  shift 3
done
mount -t proc proc "$root/proc"
cd "$root"
echo ready
exec chroot . sleep infinity >&-
"""


class Hosts:
    """Hosts on a switch. `images` are folders to mount read-only, by their place on each host; h0
    has `on_driver` as well. A host's /tmp is a folder of the run's, named after it."""

    def __init__(self, folder: Path, images: Mapping[str, Path], on_driver: Sequence[Path]) -> None:
        self.folder, self.shared = folder, folder / "shared"
        self._images, self._on_driver = images, on_driver
        self._pids = dict[str, int]()
        self._started = list["subprocess.Popen[Any]"]()
        self._links = dict[str, "subprocess.Popen[Any]"]()

    def __enter__(self) -> Self:
        self.shared.mkdir()
        try:
            self._pids["switch"] = self._hold("echo ready; exec sleep infinity >&-").pid
            self._ip("link", "add", "switch", "type", "bridge")
            self._ip("link", "set", "switch", "up")
            for name in NAMES:
                self.boot(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        started = [*self._links.values(), *reversed(self._started)]
        for each in started:
            each.kill()
        for each in started:
            each.wait()

    def boot(self, name: str) -> None:
        """Start a host, also one that was killed: its /tmp is as it was."""
        root, tmp = self.folder / "roots" / name, self.folder / name
        root.mkdir(parents=True, exist_ok=True)
        tmp.mkdir(exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{each} {host}" for host, each in ADDRESSES.items())]
        (tmp / "hosts").write_text("\n".join(lines) + "\n")
        own = {str(each): each for each in self._on_driver} if name == "h0" else {}
        images = [(str(source), at, "ro") for at, source in {**self._images, **own}.items()]
        mounts = [word for each in [(str(self.shared), SHARED, "rw"), *images] for word in each]
        spaces = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        process = self._hold(ROOT, str(root), name, str(tmp), *mounts, spaces=spaces)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        pid = self._pids[name] = int(children)
        self._ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self._ip("link", "set", name, "master", "switch", "up")
        self._ip("link", "set", "lo", "up", on=name)
        self._ip("addr", "add", f"{ADDRESSES[name]}/24", "dev", "eth0", on=name)
        self._ip("link", "set", "eth0", "up", on=name)

    def kill(self, name: str) -> None:
        """End all that runs on a host at once, as a power cut does; its address goes, too."""
        os.kill(self._pids[name], signal.SIGKILL)
        while Path(f"/proc/{self._pids[name]}").exists():
            time.sleep(0.01)

    def spawn(self, name: str, log: str, line: str, **variables: str) -> "subprocess.Popen[Any]":
        """Start a command line on a host, which ends with the host, with no variables but the usual
        and these; it prints to a file in the host's /tmp, where it runs."""
        entered = ["--mount", "--uts", "--ipc", "--pid", "--net", "--root", "--wdns=/tmp"]
        given = [f"{key}={value}" for key, value in {**VARIABLES, **variables}.items()]
        enter = ["nsenter", "-t", str(self._pids[name]), *entered, "--", "env", "-i", *given]
        with (self.folder / name / log).open("ab") as file:
            process = subprocess.Popen(
                [*enter, "bash", "-c", line], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        self._started.append(process)
        return process

    def link(self, name: str, out_ms: float | None, in_ms: float | None) -> None:
        """Delay what a host sends and what it is sent; None: it is dropped, and nobody is told."""
        self._ip("link", "add", f"{name}-a", "type", "veth", "peer", "name", f"{name}-b")
        self._ip("link", "set", name, "nomaster")
        delays = ["drop" if each is None else str(each) for each in (out_ms, in_ms)]
        script = [sys.executable, str(Path(__file__).with_name("link.py")), name, f"{name}-a"]
        enter = ["nsenter", "-t", str(self._pids["switch"]), "--net"]
        self._links[name] = subprocess.Popen([*DIES_WITH_US, *enter, *script, *delays])
        self._ip("link", "set", f"{name}-a", "up")
        self._ip("link", "set", f"{name}-b", "master", "switch", "up")

    def heal(self, name: str) -> None:
        """Undo `link`."""
        self._links[name].kill()
        self._links.pop(name).wait()
        self._ip("link", "del", f"{name}-a")
        self._ip("link", "set", name, "master", "switch")

    def _hold(self, *script: str, spaces: Sequence[str] = ()) -> "subprocess.Popen[Any]":
        """Start a script of bash's in new namespaces; wait until it says that it is ready there:
        nothing is ever done to this machine's own."""
        command = [*DIES_WITH_US, "unshare", "--net", *spaces, "bash", "-c", script[0], "root"]
        pipe = subprocess.PIPE
        process = subprocess.Popen([*command, *script[1:]], stdout=pipe, stderr=pipe)
        self._started.append(process)
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            said = process.communicate()[1].decode().strip()
            raise RigError(f"a host can't be made: {said}")
        return process

    def _ip(self, *words: str, on: str = "switch") -> None:
        command = ["nsenter", "-t", str(self._pids[on]), "--net", "ip", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RigError(f"ip {' '.join(words)} failed on {on}: {done.stderr.strip()}")
