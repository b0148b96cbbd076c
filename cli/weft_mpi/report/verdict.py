# SPDX-License-Identifier: BSD-3-Clause
# Verdicts on the rows of a result: the fraction of the hardware's bandwidth, or the ratio to a reference. Rounds that
# overlap give none, and neither do references of machines with GPUs to a machine without.
from weft_mpi import result
from weft_mpi.report.reference import same_gpu

GOOD, FAIR, POOR = "good", "fair", "poor"
SHARES = ((0.75, GOOD), (0.4, FAIR))  # minimum fraction of the link's bandwidth per grade
LARGE = 1 << 20  # bytes; smallest message rated against the link, in windows of messages
LARGE_SINGLE = 16 << 20  # bytes; the same for single messages, which start-up costs dominate below
PAIRS = ("latency", "bw", "bibw")
SIDES = {"H": "host", "P": "pinned host", "D": "device", "M": "managed"}


def size_words(size):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g} {unit}"
    return f"{size} B"


def kind_words(kinds):
    first, _, second = kinds.partition(" ")
    return f"{SIDES.get(first, first)} to {SIDES.get(second, second)}"


def of_row(found, row, references, others, overlap=False):
    """Returns (message, value, verdict, grade or ""). `others`: {name: value} of the other libraries of the run;
    `overlap`: the rounds of Weft and of the best of them overlap."""
    field = result.field(found)
    what = f"{size_words(row['size'])}, {kind_words(row.get('kinds', 'H H'))}"
    what += f", {row['type']}" if "type" in row else ""
    unit = result.FIELDS[field].rpartition("(")[2].rstrip(")")
    figure = f"{row[field]:.2f} {unit}"
    others = {name: value for name, value in others.items() if value > 0}
    if overlap:
        return what, figure, "no verdict: the rounds of the libraries overlap", ""
    for rule in (by_link, by_others, by_reference) if row[field] > 0 else ():
        verdict = rule(found, row, field, references if rule is by_reference else others)
        if verdict:
            return (what, figure, *verdict)
    return what, figure, "no link bandwidth and no reference of this size to compare with", ""


def by_link(found, row, field, _):
    """Rates device-to-device messages on one host by the fraction of NVLink's bandwidth in one direction."""
    link = (found.get("machine") or {}).get("nvlink_gb_s")
    if not link or result.kinds_of(row) != "D D" or row["size"] < LARGE or found.get("ranks") != 2:
        return None
    if field == "bandwidth_mb_s" and found["program"] in ("bw", "mbw_mr"):
        share = row[field] / 1000 / link
    elif field == "bandwidth_mb_s" and found["program"] == "bibw":
        share = row[field] / 2000 / link
    elif found["program"] == "latency" and row["size"] >= LARGE_SINGLE:
        share = row["size"] / (row[field] * 1000) / link
    else:
        return None
    return f"{100 * share:.0f} percent of NVLink ({link:.0f} GB/s)", grade(share)


def grade(share):
    return next((word for minimum, word in SHARES if share >= minimum), POOR)


def by_others(found, row, field, others):
    if not others:
        return None
    higher = field in result.HIGHER_IS_BETTER
    name = (max if higher else min)(others, key=others.get)
    return compare(row[field], others[name], name, higher)


def by_reference(found, row, field, references):
    """Rates a row by the best reference of its size, preferably of the same GPU model. Collectives need a reference
    with the same number of ranks. References between nodes, and of host memory on another machine, give no grade."""
    gpus = (found.get("machine") or {}).get("gpus")
    if not gpus:
        return None
    known = []
    for curve in references:
        same_ranks = curve.ranks == found.get("ranks") or curve.ranks == 0 and found["program"] in PAIRS
        value = dict(curve.points).get(row["size"], 0)
        if curve.memory == result.kinds_of(row) and same_ranks and value > 0:
            known.append((curve, value))
    same = [pair for pair in known if same_gpu(pair[0], gpus[0])]
    near = [pair for pair in known if not pair[0].far]
    known = same or near or known
    if not known:
        return None
    higher = field in result.HIGHER_IS_BETTER
    curve, value = (max if higher else min)(known, key=lambda pair: pair[1])
    words, verdict = compare(row[field], value, curve.label, higher)
    if not curve.far and result.kinds_of(row).startswith("H H") and not same_gpu(curve, gpus[0]):
        return f"{words} (another machine)", ""
    return (f"{words} (between nodes)", "") if curve.far else (words, verdict)


def compare(value, other, name, higher):
    ratio = value / other if higher else other / value
    verdict = GOOD if ratio >= 0.95 else FAIR if ratio >= 0.7 else POOR
    if 0.95 <= ratio <= 1.05:
        return f"as good as {name}", verdict
    words = f"{ratio:.2g} times better than" if ratio > 1 else f"{1 / ratio:.2g} times worse than"
    return f"{words} {name}", verdict
