# SPDX-License-Identifier: BSD-3-Clause
# Samples of a job on several hosts: `mpiexec --sample` prints those of a host for each interval; of_job() joins them.
# A host follows waits only to ranks of its own; chains that cross hosts are composed from the shares of the interval.
import json

from weft_mpi.job import states

MAX_HOPS = 8  # of a chain of waits over hosts
NEGLIGIBLE = 1e-4  # share of the time
MAX_MISSING = 4  # ranks for which a stream waits, in a text


def of_job(found, job, interval, count):
    """Yields a sample of all hosts for each interval, `count` of them (0: until the job has ended)."""
    expected = sum(f"\t{job}\t" in answer.text for answer in found.answers)
    arrived = {}
    try:
        for host, line in found.hosts.lines("--sample", f"{job},{interval:g},{count}"):
            if host in arrived:  # another host is late, or has no rank any more
                yield merged(list(arrived.values()), found.whole)
                arrived = {}
            arrived[host] = json.loads(line)
            if len(arrived) == expected:
                yield merged(list(arrived.values()), found.whole)
                arrived = {}
        if arrived:
            yield merged(list(arrived.values()), found.whole)
    finally:
        found.hosts.close()


def merged(samples, whole):
    """Returns one sample of several hosts."""
    ranks = {}
    for sample in samples:
        for rank in sample["ranks"]:
            if rank["rank"] not in ranks or ranks[rank["rank"]]["state"] == "ended":
                ranks[rank["rank"]] = rank
    compose(ranks)
    text = "".join(sample.get("states", "") for sample in samples)
    stuck = json.loads(states.conclude(text, whole=whole, json=True)[1]) if text else {}
    return {
        "seconds": sum(sample["seconds"] for sample in samples) / len(samples),
        "size": max(sample["size"] for sample in samples),
        "ranks": [ranks[rank] for rank in sorted(ranks)],
        "conclusions": stuck.get("conclusions", []) if isinstance(stuck, dict) else [],
    }


def compose(ranks):
    """Follows the waits for ranks of other hosts that wait themselves, and adds up how much each rank delays others."""
    causes = {number: ends(number, ranks) for number in ranks}
    for number, rank in ranks.items():
        rank["waits_for"] = {cause: share for cause, share in causes[number].items() if share >= NEGLIGIBLE}
        rank["delaying"] = sum(other.get(str(number), 0) for at, other in causes.items() if at != number)


def ends(number, ranks):
    """Returns the shares of the time in which a rank waits, by the ranks at the ends of its chains."""
    found = {}
    open_shares = dict(ranks[number]["waits_for"])
    for hop in range(MAX_HOPS):
        following = {}
        for cause, share in open_shares.items():
            other = ranks.get(int(cause)) if cause.isdecimal() else None
            onward = other is not None and other["host"] != ranks[number]["host"] and hop < MAX_HOPS - 1
            passed = {end: part for end, part in other["waits_for"].items() if end != str(number)} if onward else {}
            for end, part in passed.items():
                following[end] = following.get(end, 0) + share * part
            stays = share * (1 - min(1, sum(passed.values())))
            found[cause] = found.get(cause, 0) + stays
        open_shares = {cause: share for cause, share in following.items() if share >= NEGLIGIBLE}
    for cause, share in open_shares.items():
        found[cause] = found.get(cause, 0) + share
    return found


def stream_text(waiting):
    """Returns the call in which a GPU stream waits, and its peer or the ranks that have not arrived."""
    missing = waiting.get("missing", [])
    whom = "" if waiting["peer"] is None else f" with rank {waiting['peer']}"
    if missing:
        whom = f" for rank{'s' if len(missing) > 1 else ''} " + ", ".join(map(str, missing[:MAX_MISSING]))
        whom += ", ..." if len(missing) > MAX_MISSING else ""
    return f"{waiting['stream']}: {waiting['call']}{whom}"
