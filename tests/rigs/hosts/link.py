"""A link of a host's with its own delay each way: python link.py INNER OUTER OUT_MS|drop IN_MS|drop

Frames go between two interfaces of this network namespace. Many kernels have no netem.
"""

import select
import socket
import sys
import time
from collections import deque

SOL_PACKET, PACKET_VNET_HDR, ETH_P_ALL = 263, 15, 3
FRAME_BYTES_MAX = 1 << 17


def opened(interface: str) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # Frames come with what the sender leaves to the card: they are large, and have no sums yet.
    found.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    found.bind((interface, 0))
    return found


def main(inner: str, outer: str, *delays: str) -> None:
    ends = opened(inner), opened(outer)
    waiting = {end: deque[tuple[float, bytes]]() for end in ends}  # by where it came from
    delay_s = {
        end: None if each == "drop" else float(each) / 1000
        for end, each in zip(ends, delays, strict=True)
    }
    while True:
        due = [queue[0][0] for queue in waiting.values() if queue]
        wait_s = max(0.0, min(due) - time.monotonic()) if due else None
        for end in select.select(ends, [], [], wait_s)[0]:
            frame, address = end.recvfrom(FRAME_BYTES_MAX)
            delay = delay_s[end]
            if delay is not None and address[2] != socket.PACKET_OUTGOING:
                waiting[end].append((time.monotonic() + delay, frame))
        for end, other in (ends, ends[::-1]):
            while waiting[end] and waiting[end][0][0] <= time.monotonic():
                other.send(waiting[end].popleft()[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
