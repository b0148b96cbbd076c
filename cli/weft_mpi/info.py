# SPDX-License-Identifier: BSD-3-Clause
# weft info: prints facts about the installation, queried from the library and the machine.
import glob
import itertools
import os

from weft_mpi import __commit__, __version__, children, library, output, prefix
from weft_mpi.doctor import cluster
from weft_mpi.machine import cuda, nvml, pci, rank_gpus, system
from weft_mpi.output import Refusal


def add_parser(subparsers):
    """Adds the command's parser."""
    parser = subparsers.add_parser("info", help="print the installation, devices and networks", description=run.__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--parsable", action="store_true", help="print key:value lines")
    parser.add_argument(
        "--job", action="store_true", help="under a launcher: print launcher, hosts, networks and GPUDirect of this job"
    )
    parser.add_argument("--config", action="store_true", help="print the user settings: value, default, origin, range")
    parser.add_argument("--all", action="store_true", help="with --config: also internal settings that are not set")
    return parser


def run(arguments):
    """Prints version, prefix, library version, detected GPU support, devices and their connections, network adapters,
    transports and the launcher."""
    if arguments.all and not arguments.config:
        raise Refusal("--all without --config: it adds the internal settings to weft info --config")
    if arguments.config:
        found = library.settings()
        show_settings([one for one in found if arguments.all or is_shown(one)], arguments)
        return 0
    facts = job() if arguments.job else collect()
    if facts is None:
        return 0  # rank 0 prints
    if arguments.json:
        print(output.json_text(facts), end="")
    elif arguments.parsable:
        for key, value in flattened(facts):
            print(f"weft:{key}:{value}")
    else:
        show(facts)
    return 0


def job():
    """Returns the components that messages of this job use, and the GPUs of its ranks; None on ranks other than 0."""
    try:
        ranks = cluster.Job()
    except OSError as problem:
        raise Refusal(str(problem)) from None
    found = library.paths(ranks.library)
    places = ranks.gather({"rank": ranks.rank, "gpus": rank_gpus.text()})
    ranks.end()
    if places is None:
        return None
    facts = {part.replace(" ", "_"): text for part, text in found}
    if lines := cluster.gpus_by_rank(places):
        facts["gpus"] = lines
    elif "gpus" in facts:
        facts["gpus"] = [facts["gpus"]]
    return facts


def collect():
    """Returns the facts in print order."""
    root = prefix.find()
    loaded = library.load()
    found = library.paths(loaded)
    return {
        "weft": __version__,
        "commit": __commit__,
        "prefix": root,
        "library": library.path(),
        "library_version": library.version_text(loaded),
        "mpi_standard": library.standard(loaded),
        "abi": library.abi(loaded),
        "c_compiler": first_line([os.path.join(root, "bin", "mpicc"), "-showme:command"]),
        "cxx_compiler": first_line([os.path.join(root, "bin", "mpicxx"), "-showme:command"]),
        "fortran_compiler": first_line([os.path.join(root, "bin", "mpifort"), "-showme:command"]),
        "fortran_modules": fortran_modules(root),
        "launcher": first_line([prefix.mpiexec(), "--version"]),
        **gpu_facts(),
        "machine": library.text_of(loaded, "MPIX_Machine_name"),
        "transports": {"shm": "built in", "cuda_ipc": "built in"},
        "networks": [text for part, text in found if part == "network"],
        "other_network_libraries": [text for part, text in found if part == "other network library"],
        "site_settings": site_settings(library.settings(loaded)),
        "nics": [nic._asdict() for nic in pci.nics()],
        "processor": system.processor(),
        "cores": system.cores(),
    }


def site_settings(found):
    """Returns the settings that a file of the site makes, with its path."""
    listed = [setting for setting in found if setting["origin"].startswith("/")]
    return "; ".join("{variable}={value} ({origin})".format(**setting) for setting in listed) or "none"


def first_line(words):
    """Returns the first output line of a program of the prefix, or the reason of its failure."""
    outcome = children.run(words, 20)
    text = (outcome.out or outcome.err).strip().splitlines()
    return text[0] if outcome.good and text else "unusable: " + outcome.reason()


def fortran_modules(root):
    """Returns the compilers that have modules in the prefix or in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = set()
    for folder in (os.path.join(root, "lib", "weft", "fortran"), os.path.join(cache, "weft", "fortran")):
        for path in glob.glob(os.path.join(glob.escape(folder), "*", "compiler")):
            with open(path, encoding="utf-8", errors="replace") as file:
                found.add(file.read().strip())
    return "; ".join(sorted(found)) or "none yet (mpifort compiles them on first use)"


def gpu_facts():
    """Returns the GPU support detected at run time. Every build supports CUDA; the driver decides."""
    driver, why = cuda.open_driver()
    facts = {
        "mpi_built_with_cuda_support": True,
        "cuda_usable": driver is not None,
        "cuda_driver": f"{driver.name}, CUDA {driver.version}" if driver else f"none ({why})",
        "devices": [],
        "device_matrix": [],
    }
    if driver:
        try:
            facts["devices"] = driver.devices()
        except cuda.Unavailable as problem:
            facts["cuda_usable"], facts["cuda_driver"] = False, f"{driver.name}, unusable ({problem})"
        facts["device_matrix"] = matrix(driver, facts["devices"])
    return facts


def matrix(driver, devices):
    """Returns peer access, NVLink and PCIe distance per pair of devices. Adds each device's distances to NICs."""
    manager, _ = nvml.open_nvml()
    handles = {device["ordinal"]: manager.device(device["pci"]) if manager else None for device in devices}
    for device in devices:
        device["numa_node"] = pci.numa_node(device["pci"])
        device["nics"] = {nic.name: pci.distance(device["pci"], nic.pci) for nic in pci.nics() if nic.pci}
        if handles[device["ordinal"]]:
            device["nvlinks"], _, device["nvlink_gb_s"] = manager.links(handles[device["ordinal"]])
    rows = []
    for one, other in itertools.permutations(devices, 2):
        a, b = handles[one["ordinal"]], handles[other["ordinal"]]
        rows.append({
            "from": one["ordinal"],
            "to": other["ordinal"],
            "peer_access": driver.peer_access(one["ordinal"], other["ordinal"]),
            "nvlink": manager.nvlink_between(a, b) if a and b else None,
            "pcie": (manager.ancestor(a, b) if a and b else None) or pci.distance(one["pci"], other["pci"]),
        })  # fmt: skip
    return rows


def flattened(value, path=""):
    """Yields (key, text) of every leaf: keys joined by colons, list items by index, booleans in lower case."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from flattened(part, f"{path}:{key}" if path else key)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from flattened(part, f"{path}:{at}")
    elif path == "mpi_built_with_cuda_support":  # scripts written for ompi_info parse this line
        yield path + ":value", "true" if value else "false"
    else:
        yield path, str(value).lower() if isinstance(value, bool) or value is None else value


def show(facts):
    """Prints the facts as text."""
    special = (
        "devices", "device_matrix", "gpus", "nics", "transports", "networks", "other_network_libraries",
        "mpi_built_with_cuda_support",
    )  # fmt: skip
    for key, value in facts.items():
        if key not in special:
            text = "yes" if value is True else "no" if value is False else value
            print(f"{key.replace('_', ' '):16} {text}")
    for name, about in facts.get("transports", {}).items():
        print(f"{'transport ' + name:16} {about}")
    for about in facts.get("networks", []):
        print(f"{'network':16} {about}")
    for about in facts.get("other_network_libraries", []):
        print(f"{'':16} {about}")
    for about in facts.get("gpus", []):
        print(f"{'GPUs':16} {about}")
    if facts.get("devices"):
        print()
        show_devices(facts)
    if facts.get("nics"):
        print()
        output.table(
            ["adapter", "PCI", "driver", "state", "rate", "link", "NUMA"],
            [[nic[key] for key in ("name", "pci", "driver", "state", "rate", "link", "numa")] for nic in facts["nics"]],
        )


def show_devices(facts):
    devices = facts["devices"]
    output.table(
        ["GPU", "name", "PCI", "UUID", "memory", "capability", "compute mode", "MPS", "NUMA"],
        [[device["ordinal"], device["name"], device["pci"], rank_gpus.uuid_text(device["uuid"], device["name"]),
          "%.0f GiB" % (device["memory_bytes"] / 2**30), device["compute_capability"], device["compute_mode"],
          device["mps"], device.get("numa_node")]
         for device in devices],
    )  # fmt: skip
    between = {(row["from"], row["to"]): connection(row, devices[row["from"]]) for row in facts["device_matrix"]}
    adapters = sorted({name for device in devices for name in device.get("nics", {})})
    if len(devices) > 1 or adapters:
        print()
        rows = []
        for one in devices:
            cells = [between.get((one["ordinal"], other["ordinal"]), "-") for other in devices]
            rows.append([f"GPU{one['ordinal']}", *cells, *(one["nics"].get(name, "?") for name in adapters)])
        output.table(["", *(f"GPU{device['ordinal']}" for device in devices), *adapters], rows)
        print(
            "NVn: n NVLinks; "
            + "; ".join("{}: {}".format(*item) for item in pci.DISTANCES.items())
            + "; !: no peer access"
        )


def connection(row, device):
    """Returns a cell of the matrix in the notation of `nvidia-smi topo -m`."""
    text = f"NV{device['nvlinks']}" if row["nvlink"] and device.get("nvlinks") else row["pcie"] or "?"
    return text if row["peer_access"] else text + "!"


def is_shown(setting):
    """Returns True for user settings, and for internal settings if the environment or a profile sets them."""
    return setting["level"] == "user" or setting["origin"] != "default"


def show_settings(found, arguments):
    """Prints the settings in the requested format."""
    if arguments.json:
        print(output.json_text(found), end="")
        return
    for setting in found:
        if arguments.parsable:
            print("weft:config:{variable}:value:{value}".format(**setting))
            continue
        changed = "" if setting["origin"] == "default" else "   ({})".format(setting["origin"])
        print("{variable} = {value}".format(**setting) + changed)
        print("    {help}".format(**setting))
        if setting["change_when"]:
            print("    Change it when {change_when}.".format(**setting))
        print("    {range}; default {default}".format(**setting))
