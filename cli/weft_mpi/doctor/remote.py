# SPDX-License-Identifier: BSD-3-Clause
# Runs on each host of `weft doctor --hosts`: weft_mpi.doctor.remote facts | listen | connect HOST:PORT... | local GROUP...
# Prints one line of JSON.
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import socket
import sys
import time

from weft_mpi import library, output
from weft_mpi.machine import cuda, files, pci

LISTEN_SECONDS, CONNECT_SECONDS = 60, 5
GREETING = b"weft"


def facts() -> dict:
    """Returns what the hosts of a job must share, and their GPUs."""
    path = library.path()
    found = {"host": socket.gethostname(), "time": time.time(), "library": path, "addresses": addresses(), **gpus()}
    try:
        loaded = library.load()
        with open(path, "rb") as file:
            found["digest"] = hashlib.sha256(file.read()).hexdigest()
        found["version"] = library.version_text(loaded)
        found["networks"] = [text for part, text in library.paths(loaded) if part == "network"]
        found["site"] = [
            f"{s['variable']}={s['value']}" for s in library.settings(loaded) if s["origin"].startswith("/")
        ]
    except (OSError, output.Refusal) as problem:
        found["error"] = str(problem)
    return found


def gpus() -> dict:
    """Returns visible and hidden GPUs, why they are hidden, compute modes and MPS."""
    driver, why = cuda.open_driver()
    try:
        devices = driver.devices() if driver else []
    except cuda.Unavailable as reason:
        devices, why = [], str(reason)
    hidden = []
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        if name in os.environ:
            hidden.append(f"{name}={os.environ[name]}")
    if cut_off := pci.cut_off_gpus():
        hidden.append(f"a cgroup or the container denies {', '.join(cut_off)}")
    if not devices and why:
        hidden.append(why)
    return {
        "gpus": [device["name"] for device in devices],
        "present": max(len(pci.gpus()), len(files.entries("/proc/driver/nvidia/gpus")), len(devices)),
        "hidden": hidden,
        "modes": sorted({str(device["compute_mode"]) for device in devices}),
        "mps": sorted({str(device["mps"]) for device in devices}),
    }


def addresses() -> dict[str, str]:
    """Returns the IPv4 address of each interface but the loopback."""
    import fcntl
    import struct

    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # SIOCGIFADDR; an interface may have no address
                answer = fcntl.ioctl(query, 0x8915, struct.pack("256s", name.encode()[:15]))
                address = socket.inet_ntoa(answer[20:24])
                if not address.startswith("127."):
                    found[name] = address
    return found


def listen() -> None:
    """Prints a port and accepts connections there until standard input ends."""
    with socket.create_server(("", 0)) as server:
        print(json.dumps({"port": server.getsockname()[1]}), flush=True)
        end = time.monotonic() + LISTEN_SECONDS
        while time.monotonic() < end:
            ready = select.select([server, sys.stdin], [], [], 1)[0]
            if sys.stdin in ready:
                return
            if server in ready:
                with server.accept()[0] as peer:
                    peer.sendall(GREETING)


def connect(targets: list[str]) -> dict[str, str]:
    """Returns the error of a connection to each HOST:PORT; empty: it works."""
    errors = {}
    for target in targets:
        host, _, port = target.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), CONNECT_SECONDS) as peer:
                errors[target] = "" if peer.recv(len(GREETING)) == GREETING else "another program answers"
        except OSError as problem:
            errors[target] = problem.strerror or str(problem)
    return errors


def local(groups: list[str]) -> list:
    """Returns the findings of `weft doctor` on this host."""
    from weft_mpi import doctor

    return [list(finding) for name in groups for finding in doctor.GROUPS[name]()]


def main(words: list[str]) -> None:
    if words[0] == "listen":
        listen()
        return
    actions = {"facts": facts, "connect": lambda: connect(words[1:]), "local": lambda: local(words[1:])}
    print(json.dumps(actions[words[0]]()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
