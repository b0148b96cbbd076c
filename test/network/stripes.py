#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Large messages between two hosts of test/cluster/hosts with two adapters of one limited rate: every adapter carries its
# share. With `ratio` also: the bandwidth is at least 1.8 times that of one adapter, by the fastest of three jobs each,
# alternating. usage: stripes.py [ratio] -- LAUNCHER... PROGRAM
import os
import subprocess
import sys

BYTES = 4 << 20
MIN_RATIO = 1.8
ROUNDS = 3


def carried(adapter):
    """Returns the bytes that an adapter of this host has sent."""
    with open("/proc/net/dev", encoding="ascii") as file:
        return next(int(line.split(":")[1].split()[8]) for line in file if line.strip().startswith(f"{adapter}:"))


def bandwidth(command, adapters, messages):
    """Runs a job with the named adapters; returns its bandwidth in MB/s."""
    environment = {**os.environ, "WEFT_NET_OFI_NIC": "+".join(adapters)}
    output = subprocess.run(
        [*command, str(len(adapters)), str(messages), str(BYTES)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return float(output.split("MB/s")[1].split()[0])


def check_shares(command):
    """Returns a complaint, or nothing: each of two adapters has carried about a half."""
    messages, windows = 2, 3
    before = [carried("eth0"), carried("eth1")]
    bandwidth(command, ["eth0", "eth1"], messages)
    sent = [carried("eth0") - before[0], carried("eth1") - before[1]]
    half = (messages * windows + 1) * BYTES // 2  # a put follows the messages
    print("sent by two adapters, in halves of the content:", [round(bytes / half, 3) for bytes in sent])
    return (
        ""
        if all(half <= bytes <= 1.2 * half for bytes in sent)
        else "an adapter has not carried its half, or much more"
    )


def check_ratio(command):
    """Returns a complaint, or nothing."""
    one, two = 0.0, 0.0
    for _ in range(ROUNDS):
        one = max(one, bandwidth(command, ["eth0"], 16))
        two = max(two, bandwidth(command, ["eth0", "eth1"], 16))
    print(f"one adapter {one:.1f} MB/s, two {two:.1f} MB/s: {two / one:.2f} times")
    return "" if two >= MIN_RATIO * one else f"less than {MIN_RATIO} times the bandwidth of one adapter"


def main():
    split = sys.argv.index("--")
    command = sys.argv[split + 1 :]
    complaint = check_shares(command)
    if not complaint and "ratio" in sys.argv[1:split]:
        complaint = check_ratio(command)
    if complaint:
        print(complaint, file=sys.stderr)
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
