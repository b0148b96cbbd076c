# SPDX-License-Identifier: BSD-3-Clause
# Commands on other hosts over ssh, without questions for passwords. On this host they run without ssh.
from __future__ import annotations

import concurrent.futures
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable
from typing import TypeVar

from weft_mpi import children
from weft_mpi.children import Outcome
from weft_mpi.output import Refusal

Value = TypeVar("Value")

CONNECT_SECONDS = 10
OPTIONS = ["-x", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
CONNECTION_FAILED = 255  # exit status of ssh
MAX_AT_ONCE = 32


def is_here(host: str) -> bool:
    """Returns True for names of this host, by the rule of mpiexec."""
    own = socket.gethostname()
    return host in ("localhost", "127.0.0.1", own, own.partition(".")[0]) or own == host.partition(".")[0]


def command(host: str, words: list[str]) -> list[str]:
    """Returns the command that runs `words` on a host by its /bin/sh, whatever the user's shell is."""
    if is_here(host):
        return words
    return ["ssh", *OPTIONS, host, "exec /bin/sh -c " + shlex.quote(shlex.join(words))]


def check_ssh(hosts: Iterable[str]) -> None:
    """Raises Refusal if a host needs ssh and there is none."""
    if not all(map(is_here, hosts)) and not shutil.which("ssh"):
        raise Refusal("ssh is not installed (Debian: openssh-client, Fedora: openssh-clients): install it")


def run(host: str, words: list[str], seconds: float, data: bytes | None = None) -> Outcome:
    """Runs a command on a host with `data` as its standard input."""
    if data is None:
        return children.run(command(host, words), seconds)
    try:
        done = subprocess.run(
            command(host, words), input=data, capture_output=True, timeout=seconds, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return Outcome(-1, None, True, "", "")
    return Outcome(
        done.returncode, None, False, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def on_all(hosts: Iterable[str], action: Callable[[str], Value]) -> dict[str, Value]:
    """Returns {host: action(host)}, run at the same time."""
    hosts = list(hosts)
    with concurrent.futures.ThreadPoolExecutor(min(MAX_AT_ONCE, max(1, len(hosts)))) as pool:
        return dict(zip(hosts, pool.map(action, hosts)))


def is_unreachable(host: str, outcome: Outcome) -> bool:
    return not is_here(host) and (outcome.timed_out or outcome.status == CONNECTION_FAILED)


def reason(host: str, outcome: Outcome) -> tuple[str, str]:
    """Returns why ssh cannot reach a host, and the remedy."""
    if outcome.timed_out:
        return "ssh gets no answer", f"does `ssh {host} true` end? The login files of the host must not ask questions"
    text = (outcome.err.strip().splitlines() or ["ssh failed"])[-1]
    if "Permission denied" in text:
        return text, f"let this user log in without a password: ssh-keygen, then ssh-copy-id {host}"
    if "Host key verification" in text or "host key" in outcome.err.lower():
        return "the host's key is unknown, or has changed", f"run `ssh {host}` once and compare its key"
    if "resolve" in text:
        return text, f"add {host} to DNS or /etc/hosts, or use another name of it"
    if "refused" in text or "timed out" in text or "No route" in text:
        return text, f"is sshd running on {host}, and does a firewall let port 22 through?"
    return text, f"run `ssh {host} true` for its error message"


def forwarded(names: tuple[str, ...]) -> list[str]:
    """Returns env(1) with the variables of this process that begin with a name, as mpiexec passes them to other hosts."""
    found = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(names)]
    return ["env", *found] if found else []
