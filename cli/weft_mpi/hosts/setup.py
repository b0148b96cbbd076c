# SPDX-License-Identifier: BSD-3-Clause
# Installs, checks and removes the launcher on other hosts. Each result is (state, remedy); the state "ready" has none.
from __future__ import annotations

import io
import os
import shutil
import tarfile

from weft_mpi import children, prefix
from weft_mpi.hosts import package, record, ssh

READY, REMOVED = "ready", "removed"
SECONDS = 60  # timeout of one command on a host
State = tuple[str, str]

# Arguments: folder, version, mpiexec of Weft. Prints the state of the host.
QUERY = """
cd "$1" 2>/dev/null && [ -x bin/hydra_pmi_proxy ] && [ "$(cat version 2>/dev/null)" = "$2" ] || { echo absent; exit 0; }
bin/mpiexec.hydra -info >/dev/null 2>&1 || { echo broken; exit 0; }
[ -x "$3" ] && echo ready || echo weft
"""
# Arguments: folder. The files are a tar archive on standard input; running jobs keep theirs.
UNPACK = """
set -e
mkdir -p "$1"
cd "$1"
mkdir "new.$$"
tar -xf - -C "new.$$"
rm -rf bin lib licenses
mv "new.$$"/* .
rmdir "new.$$"
"""


def install(hosts: list[str], wheel: str | None) -> dict[str, State]:
    """Installs the launcher here and on hosts, and starts a process on each by it."""
    ssh.check_ssh(hosts)
    package.install(wheel)
    archive = packed()
    states = ssh.on_all(hosts, lambda host: install_on(host, archive))
    known = record.hosts()
    ready = [host for host in hosts if states[host][0] == READY]
    record.write_hosts(list(dict.fromkeys([*known, *ready])))
    return states


def packed() -> bytes:
    """Returns a tar archive of the launcher."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name in ("bin", "lib", "licenses", "version"):
            path = os.path.join(record.folder(), name)
            if os.path.exists(path):
                archive.add(path, name)
    return data.getvalue()


def install_on(host: str, archive: bytes) -> State:
    state = query(host)
    if state[0] in ("absent", "broken"):
        outcome = ssh.run(host, ["sh", "-c", UNPACK, "sh", record.folder()], SECONDS, archive)
        if ssh.is_unreachable(host, outcome):
            return ssh.reason(host, outcome)
        if not outcome.good:
            return (
                f"{record.folder()} cannot be written there ({outcome.error_line()})",
                "set XDG_DATA_HOME to a folder that exists on all hosts, here and for mpiexec, and repeat",
            )
        state = query(host)
    return start_on(host) if state[0] == READY else explained(host, state)


def query(host: str) -> State:
    """Returns the state of a host: "absent", "broken", "weft" (Weft is missing), "ready", or why it is unreachable."""
    outcome = ssh.run(
        host, ["sh", "-c", QUERY, "sh", record.folder(), record.version() or "", prefix.mpiexec()], SECONDS
    )
    if ssh.is_unreachable(host, outcome):
        return ssh.reason(host, outcome)
    words = outcome.out.split()
    return (
        (words[-1], "")
        if outcome.good and words
        else (outcome.reason(), f"run `ssh {host} true` for its error message")
    )


def explained(host: str, state: State) -> State:
    """Returns a state with a text and a remedy."""
    texts = {
        "absent": ("no launcher", f"weft hosts --setup {host}"),
        "broken": ("the launcher does not run there", f"is {host} of the same architecture, with glibc 2.28 or newer?"),
        "weft": (
            f"no Weft at {prefix.mpiexec()}",
            "install Weft there under the same path, or share the folder (a virtual environment at the same path will do)",
        ),
    }
    return texts.get(state[0], state)


def start_on(host: str) -> State:
    """Starts a process on a host by the launcher, which connects back to this host."""
    words = [record.hydra(), "-launcher", "ssh", "-hosts", f"{host}:1", "-n", "1", "true"]
    outcome = children.run(words, SECONDS)
    if outcome.good:
        return READY, ""
    return (
        f"the launcher cannot start a process ({outcome.reason()})",
        f"weft doctor --hosts {host}: can {host} resolve this host's name and connect to its ports?",
    )


def check(hosts: list[str]) -> dict[str, State]:
    ssh.check_ssh(hosts)
    return {host: explained(host, state) for host, state in ssh.on_all(hosts, query).items()}


def remove(hosts: list[str]) -> dict[str, State]:
    """Removes the launcher from hosts, and from this one with the last of them."""
    ssh.check_ssh(hosts)
    words = ["rm", "-rf", record.folder()]

    def remove_from(host: str) -> State:
        if ssh.is_here(host):
            return REMOVED, ""
        outcome = ssh.run(host, words, SECONDS)
        if ssh.is_unreachable(host, outcome):
            return ssh.reason(host, outcome)
        return (REMOVED, "") if outcome.good else (outcome.reason(), "")

    known = record.hosts()
    states = ssh.on_all(hosts, remove_from)
    left = [host for host in known if states.get(host, ("",))[0] != REMOVED]
    if not left:
        shutil.rmtree(record.folder(), ignore_errors=True)
    elif os.path.isdir(record.folder()):
        record.write_hosts(left)
    return states
