# SPDX-License-Identifier: BSD-3-Clause
# Checks of several hosts over ssh, before a job runs on them: what the hosts must share, connections between them, and
# messages of a job that mpiexec starts on each pair of neighbours.
from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
import subprocess
import time

from weft_mpi import children, prefix
from weft_mpi.children import Outcome
from weft_mpi.doctor.finding import Finding, broken, ok, slow, unchecked
from weft_mpi.hosts import ssh

SECONDS, LOCAL_SECONDS, JOB_SECONDS = 60, 300, 90
VARIABLES = ("WEFT_", "UCX_", "FI_", "CUDA_", "LD_LIBRARY_PATH", "XDG_DATA_HOME")  # that reach the ranks of a job
MAX_CLOCK_SECONDS = 60
Nodes = dict[str, list[Finding]]


def remote(host: str, *words: str, seconds: float = SECONDS) -> Outcome:
    """Runs weft_mpi.doctor.remote on a host, with the variables that its ranks would have."""
    return ssh.run(host, [*ssh.forwarded(VARIABLES), *children.python("weft_mpi.doctor.remote", *words)], seconds)


def answer(outcome: Outcome):
    """Returns the value that the program has printed; None if there is none."""
    for line in reversed(outcome.out.splitlines()):
        with contextlib.suppress(ValueError):
            return json.loads(line)
    return None


def survey(hosts: list[str], groups: list[str]) -> Nodes:
    """Returns {host: findings}. `groups`: checks of each host by itself."""
    ssh.check_ssh(hosts)
    nodes: Nodes = {host: [] for host in hosts}
    facts = {}
    for host, (found, finding) in ssh.on_all(hosts, facts_of).items():
        nodes[host].append(finding)
        if found:
            facts[host] = found
    for checks in (equal_weft(facts), clocks(facts), ports(list(facts)), networks(facts), ucx(facts), adapters(facts),
                   gpus(facts)):  # fmt: skip
        for host, finding in checks.items():
            nodes[host].append(finding)
    for check in (("messages between hosts", "H"), ("GPU messages between hosts", "D")):
        for host, finding in messages(facts, *check).items():
            nodes[host].append(finding)
    if groups:
        for host, findings in ssh.on_all(list(facts), lambda host: by_itself(host, groups)).items():
            nodes[host] += findings
    return nodes


def facts_of(host: str) -> tuple[dict | None, Finding]:
    """Returns the facts of a host, and the finding about ssh and Weft's path."""
    begin = time.time()
    outcome = remote(host, "facts")
    name = "ssh and path"
    if ssh.is_unreachable(host, outcome):
        return None, broken(name, *ssh.reason(host, outcome))
    found = answer(outcome)
    if not isinstance(found, dict):
        text = outcome.error_line() or outcome.reason()
        return None, broken(name, f"Weft cannot run there ({text})", f"install Weft and {children.python('')[0]} under the "
                            "same path on all hosts: a shared folder, or the same virtual environment")  # fmt: skip
    found["lag"] = found["time"] - (begin + time.time()) / 2, (time.time() - begin) / 2
    if "error" in found:
        return None, broken(name, found["error"], f"reinstall Weft on {host}")
    return found, ok(name, "on this host" if ssh.is_here(host) else f"no password; {found['library']}")


def by_value(values: dict[str, str]) -> str:
    """Returns "a, b: value; c: other value"."""
    groups: dict[str, list[str]] = {}
    for host, value in values.items():
        groups.setdefault(value, []).append(host)
    return "; ".join(f"{', '.join(same)}: {value}" for value, same in groups.items())


def equal_weft(facts: dict) -> dict[str, Finding]:
    """Compares version and commit, and the library byte for byte."""
    name, versions = "same Weft", {host: found["version"] for host, found in facts.items()}
    digests = {host: found["digest"] for host, found in facts.items()}
    if len(set(versions.values())) > 1:
        return dict.fromkeys(facts, broken(name, by_value(versions), "install one version of Weft on all hosts"))
    if len(set(digests.values())) > 1:
        text = f"{next(iter(versions.values()))}; the libraries differ: " + by_value(
            {h: d[:12] for h, d in digests.items()}
        )
        return dict.fromkeys(facts, broken(name, text, "install the same build of Weft on all hosts"))
    return {host: ok(name, f"{versions[host]}, the same library") for host in facts}


def clocks(facts: dict) -> dict[str, Finding]:
    """Compares the clocks with that of this host; the error is half of the time that the answer took."""
    findings = {}
    for host, found in facts.items():
        off, error = found["lag"]
        text = f"{off:+.1f} s from this host's, within {error:.1f} s"
        far = abs(off) - error > MAX_CLOCK_SECONDS
        findings[host] = (
            slow("clocks of the hosts", text, "synchronize the clocks (chrony, ntpd): logs and traces mix times")
            if far
            else ok("clocks of the hosts", "the same" if abs(off) <= error + 1 else text)
        )
    return findings


@contextlib.contextmanager
def listeners(hosts: list[str]):
    """Yields {host: port} of a listening program on each host; hosts where none starts are missing."""
    started, open_ports = {}, {}
    words = children.python("weft_mpi.doctor.remote", "listen")
    try:
        for host in hosts:
            started[host] = subprocess.Popen(
                ssh.command(host, words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        for host, program in started.items():
            with contextlib.suppress(ValueError, KeyError):
                open_ports[host] = json.loads(program.stdout.readline())["port"]
        yield open_ports
    finally:
        for program in started.values():
            with contextlib.suppress(OSError):
                program.stdin.close()
            program.stdout.close()
            try:
                program.wait(5)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def ports(hosts: list[str]) -> dict[str, Finding]:
    """Connects all hosts with this one, whose name the launcher's processes must resolve, and with their neighbours."""
    name = "names and ports"
    own = socket.gethostname()
    if not hosts or all(map(ssh.is_here, hosts)):
        return {}
    everyone = hosts if any(map(ssh.is_here, hosts)) else [own, *hosts]
    findings = {}
    with listeners(everyone) as open_ports:
        if len(open_ports) < len(everyone):
            silent = ", ".join(host for host in everyone if host not in open_ports)
            return dict.fromkeys(
                hosts, broken(name, f"no port can be opened on {silent}", "are sockets allowed there?")
            )

        def address(host: str) -> str:
            return f"{own if ssh.is_here(host) else host}:{open_ports[host]}"

        first = next(host for host in everyone if ssh.is_here(host))
        neighbour = dict(zip(everyone, [*everyone[1:], everyone[0]]))

        def check(host: str) -> Finding:
            targets = {first, neighbour[host]} - {host}
            results = answer(remote(host, "connect", *map(address, sorted(targets))))
            if results is None:
                return broken(name, "the check does not run there", f"weft doctor --hosts {host}")
            failed = {target: why for target, why in results.items() if why}
            if not failed:
                return ok(name, "connections to " + ", ".join(target.rpartition(":")[0] for target in results))
            text = "; ".join(f"no connection from {host} to {target}: {why}" for target, why in failed.items())
            return broken(name, text, "name all hosts in DNS or /etc/hosts of each host with an address that the others "
                          "reach, and let a firewall pass all ports between them")  # fmt: skip

        findings = ssh.on_all(hosts, check)
    return findings


def networks(facts: dict) -> dict[str, Finding]:
    """Compares the networks by the first three bytes of the addresses, since the masks differ between clouds."""
    name = "networks"
    if not facts:
        return {}
    of_host = {
        host: {str(ipaddress.ip_network(f"{a}/24", strict=False)) for a in found["addresses"].values()}
        for host, found in facts.items()
    }
    common = set.intersection(*of_host.values())
    text = {
        host: ", ".join(f"{i} {a}" for i, a in found["addresses"].items()) or "none" for host, found in facts.items()
    }
    several = max(len(own) for own in of_host.values()) > 1
    note = f"; common: {', '.join(sorted(common))}" if common else "; no common network, so a router connects the hosts"
    if several and not common and len(facts) > 1:
        remedy = (
            "name one interface of the same network on all hosts: UCX_NET_DEVICES, or WEFT_NET_OFI_NIC for libfabric"
        )
        return {host: slow(name, text[host] + note, remedy) for host in facts}
    return {host: ok(name, text[host] + note) for host in facts}


def ucx(facts: dict) -> dict[str, Finding]:
    """Compares the network libraries that the hosts would use."""
    name = "network library"
    used = {host: next((t for t in found["networks"] if "not usable" not in t), "") for host, found in facts.items()}
    findings = {}
    short = {host: text.partition(" (")[0] for host, text in used.items()}
    for host, text in used.items():
        if not text:
            why = "; ".join(facts[host]["networks"])
            findings[host] = broken(name, f"none is usable: {why}", "install UCX on each host (Debian: libucx0), or in the "
                                    "Python environment: pip install libucx-cu13 (or -cu12)")  # fmt: skip
        elif len(set(short.values())) > 1:
            findings[host] = broken(name, text + "; the hosts differ: " + by_value(short), "install the same library on all "
                                    "hosts, or name it by WEFT_NET_UCX_LIBRARY in /etc/weft.conf")  # fmt: skip
        elif facts[host]["gpus"] and text.startswith("ucx:") and ", cuda" not in text:
            findings[host] = slow(name, text + ": GPU memory is staged through host memory", "pip install libucx-cu13 (or "
                                  "-cu12) in Weft's environment, or a UCX of the site with CUDA")  # fmt: skip
        else:
            findings[host] = ok(name, text)
    return findings


def adapters(facts: dict) -> dict[str, Finding]:
    """Compares the numbers of adapters that one rank would use over libfabric; nothing where no host can use it."""
    name, used = "adapters of a rank", {}
    for host, found in facts.items():
        matches = [re.match(r"ofi: .*, provider \S+ over (.+?) \(", text) for text in found["networks"]]
        used.update((host, match[1].split(" + ")) for match in matches if match)
    counts = {host: str(len(names)) for host, names in used.items()}
    findings = {}
    for host, names in used.items():
        text = f"{len(names)} over libfabric: {', '.join(names)}"
        if len(set(counts.values())) > 1:
            findings[host] = slow(name, f"{text}; the hosts differ: {by_value(counts)}, and two ranks use the smaller number",
                                  "name the adapters of each host by WEFT_NET_OFI_NIC in its /etc/weft.conf")  # fmt: skip
        else:
            findings[host] = ok(name, text)
    return findings


def gpus(facts: dict) -> dict[str, Finding]:
    """Reports visible and hidden GPUs, compute mode and MPS."""
    name, findings = "GPUs of the hosts", {}
    counts = {host: str(len(found["gpus"])) for host, found in facts.items()}
    for host, found in facts.items():
        seen, present, why = len(found["gpus"]), found["present"], "; ".join(found["hidden"])
        text = f"{seen} of {present}" + (f": {found['gpus'][0]}" if seen else "")
        if seen:
            text += f"; compute mode: {', '.join(found['modes'])}; MPS: {', '.join(found['mps'])}"
        if seen < present:
            text += f"; {present - seen} hidden: {why or 'by the driver'}"
        if not present:
            findings[host] = unchecked(name, "the kernel reports no NVIDIA GPU")
        elif not seen:
            findings[host] = broken(name, text, "unset the variable, or start the container or job step with its GPUs")
        elif "prohibited" in found["modes"]:
            findings[host] = broken(name, text, "as root: nvidia-smi -c DEFAULT")
        elif len(set(counts.values())) > 1:
            findings[host] = slow(name, f"{text}; the hosts differ: {by_value(counts)}", "give each host its number of "
                                  "processes (--hosts a:4,b:2), and show all GPUs everywhere")  # fmt: skip
        else:
            findings[host] = ok(name, text)
    return findings


def messages(facts: dict, name: str, kind: str) -> dict[str, Finding]:
    """Runs a validated benchmark on each host and its neighbour, by mpiexec."""
    hosts = list(facts)
    if len(hosts) < 2:
        return {}
    findings = {}
    for one, other in zip(hosts, hosts[1:]):
        if kind == "D" and not (facts[one]["gpus"] and facts[other]["gpus"]):
            findings[other] = unchecked(name, "no GPU is usable there")
        else:
            findings[other] = exchange(name, kind, one, other)
    return findings


def exchange(name: str, kind: str, one: str, other: str) -> Finding:
    words = [prefix.mpiexec(), "--hosts", f"{one}:1,{other}:1", "-n", "2", prefix.program("bench/latency"), "-m", "8,4M",
             "-i", "50", "-x", "5", "-c", *(["-d", "cuda"] if kind == "D" else []), kind, kind]  # fmt: skip
    outcome = children.run(words, JOB_SECONDS, children.clean_environment(WEFT_LOG="warn"))
    rows = [line.split() for line in outcome.out.splitlines() if line[:1].isdigit()]
    if not outcome.good or not rows:
        return broken(name, f"{one} and {other}: {outcome.reason()}", f"run `{' '.join(words)}` for its error message")
    small, large = float(rows[0][1]), float(rows[-1][1])
    text = f"{one} and {other}: {small:.1f} us for 8 bytes, {4 * 2**20 / large / 1e3:.2f} GB/s for 4 MiB; every byte compared"
    staged = [line for line in outcome.slow_paths() if "net." in line]
    if staged:
        return slow(
            name,
            f"{text}; {staged[0]}",
            "the cause is in parentheses; `weft doctor` on each host checks the requirements",
        )
    return ok(name, text)


def by_itself(host: str, groups: list[str]) -> list[Finding]:
    """Returns the findings of `weft doctor` on a host."""
    found = answer(remote(host, "local", *groups, seconds=LOCAL_SECONDS))
    if not isinstance(found, list):
        return [broken("checks of the host", "they do not run there", f"run `weft doctor` on {host}")]
    return [Finding(*finding) for finding in found]
