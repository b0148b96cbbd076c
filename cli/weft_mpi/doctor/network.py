# SPDX-License-Identifier: BSD-3-Clause
# Network and GPUDirect checks: adapters, registration of GPU memory, gdrcopy, cuFile, UCX, libfabric.
import json
import os
import shutil

from weft_mpi import children, library
from weft_mpi.doctor.finding import broken, ok, slow, unchecked
from weft_mpi.machine import cuda, files, pci

OPENED_UCX_REMEDY = ("`UCX_LOG_LEVEL=info weft info` prints UCX's own reasons; its shared memory needs a /dev/shm in which "
                     "files can be created, or UCX_TLS=^posix")  # fmt: skip
UCX_REMEDY = ("install UCX configured with --with-cuda --with-gdrcopy (`ucx_info -d | grep cuda`), and put its "
              "lib folder first in LD_LIBRARY_PATH")  # fmt: skip
LIBFABRIC_REMEDY = "install libfabric configured with --with-cuda, and on Slingshot the provider cxi"
RDMA_REMEDY = ("as root: modprobe nvidia_peermem; or use kernel 5.12, an adapter driver with dma-buf support and "
               "NVIDIA's open kernel module")  # fmt: skip
GPU_DISABLING_VARIABLES = ("UCX_TLS", "UCX_IB_GPU_DIRECT_RDMA", "FI_HMEM_CUDA_USE_GDRCOPY", "FI_HMEM")


def checks():
    adapters = pci.nics()
    gpus = cuda.visible_count()
    yield check_adapters(adapters)
    yield check_affinity(adapters)
    yield check_registration(adapters, gpus)
    yield check_gdrcopy(gpus)
    yield check_cufile(gpus)
    yield check_ucx(gpus)
    yield check_libfabric(gpus)
    yield check_variables()


def check_adapters(adapters):
    if not adapters:
        return unchecked("network adapters", "no InfiniBand, RoCE, EFA or Slingshot adapter is visible")
    down = [nic.name for nic in adapters if nic.state not in ("ACTIVE", "?")]
    text = ", ".join("{} ({}{})".format(nic.name, nic.link or nic.driver, " " + nic.rate if nic.rate else "")
                     for nic in adapters)  # fmt: skip
    if len(down) == len(adapters):
        return broken("network adapters", text + "; none is active", "run ibstat; check cables and subnet manager")
    if down:
        return slow("network adapters", "{}; down: {}".format(text, ", ".join(down)), "run ibstat; check the cable, or "
                    "exclude the adapter with UCX_NET_DEVICES")  # fmt: skip
    if not files.usable("/dev/infiniband/uverbs0") and files.exists("/sys/class/infiniband"):
        return broken("network adapters", text + "; /dev/infiniband/uverbs0 cannot be opened",
                      "load ib_uverbs; in a container: --device=/dev/infiniband")  # fmt: skip
    return ok("network adapters", text)


def check_affinity(adapters):
    gpus, placed = pci.gpus(), [nic for nic in adapters if nic.pci]
    if not gpus or not placed:
        return unchecked("GPU to adapter distance", "needs GPUs and adapters with known PCI addresses")
    order = list(pci.DISTANCES)
    best = {}
    for gpu in gpus:
        known = [(pci.distance(gpu, nic.pci), nic.name) for nic in placed if pci.distance(gpu, nic.pci)]
        best[gpu] = min(known, key=lambda pair: order.index(pair[0]), default=(None, None))
    text = ", ".join("{}: {} {}".format(gpu, name or "?", how or "unknown") for gpu, (how, name) in best.items())
    far = [gpu for gpu, (how, _) in best.items() if how in ("NODE", "SYS")]
    if far:
        return slow("GPU to adapter distance", text, "GPUDirect is slow across NUMA nodes: bind ranks so that each "
                    "GPU uses its nearest adapter (UCX_NET_DEVICES), or move the adapter")  # fmt: skip
    return ok("GPU to adapter distance", text)


def probe(name, *words):
    """Runs a probe in a child process. Returns its facts, or {"error": ...}."""
    outcome = children.run(children.python("weft_mpi.doctor.probe", name, *words), 40)
    if not outcome.good:
        return {"error": outcome.reason()}
    try:
        return json.loads(outcome.out.splitlines()[-1])
    except (ValueError, IndexError):
        return {"error": "the probe printed nothing"}


def check_registration(adapters, gpus):
    """Registers GPU memory with each adapter through nvidia_peermem and dma-buf, as GPUDirect transfers do."""
    name = "GPUDirect RDMA"
    loaded = [module for module in ("nvidia_peermem", "nv_peer_mem") if files.exists("/sys/module/" + module)]
    modules = "module {}".format(" and ".join(loaded)) if loaded else "neither nvidia_peermem nor nv_peer_mem is loaded"
    if not adapters or not gpus:
        lacking = "no adapter" if not adapters else "no GPU"
        return unchecked(name, f"{lacking}, so nothing to register ({modules})")
    if all(nic.link == "Slingshot" for nic in adapters):
        return unchecked(name, "Slingshot registers memory through libfabric; see the libfabric check")
    found = probe("register")
    if "error" in found:
        return broken(name, "{}; {}".format(found["error"], modules), "install rdma-core (libibverbs.so.1)")
    working = {device for device, methods in found["devices"].items() if methods["peermem"] or methods["dmabuf"]}
    text = "; ".join(f"{device}: {describe_methods(methods)}" for device, methods in found["devices"].items())
    if not working:
        return broken(name, f"{text}; {modules}: GPU memory is staged through host memory", RDMA_REMEDY)
    if loaded == ["nv_peer_mem"]:
        return slow(name, text + "; nv_peer_mem is outdated", "replace it with the driver's nvidia_peermem")
    return ok(name, f"{text} ({modules})")


def describe_methods(methods):
    words = [word for word, key in (("peer memory", "peermem"), ("dma-buf", "dmabuf")) if methods[key]]
    return (
        "1 MiB of GPU memory registered with " + " and ".join(words) if words else "failed ({})".format(methods["why"])
    )


def check_gdrcopy(gpus):
    """Checks module and library, and times copies through a mapping of GPU memory."""
    name, module = "gdrcopy", files.exists("/sys/module/gdrdrv")
    if not gpus:
        return unchecked(name, "no GPU (module gdrdrv %s)" % ("loaded" if module else "not loaded"))
    if not module and not files.exists("/dev/gdrdrv"):
        return unchecked(name, "the module gdrdrv is not loaded; Weft does not need it between GPUs of one host",
                         "for small messages over a network install gdrcopy and run `modprobe gdrdrv`")  # fmt: skip
    if not files.usable("/dev/gdrdrv"):
        return broken(name, "/dev/gdrdrv cannot be opened", "chmod 666 /dev/gdrdrv (gdrcopy's installer does); in a "
                      "container: --device=/dev/gdrdrv")  # fmt: skip
    found = probe("gdrcopy")
    if "error" in found:
        return broken(name, found["error"], "install libgdrapi.so.2 in the version of the module gdrdrv")
    text = "8 bytes to the GPU in {:.2f} us; read back and compared".format(found["write_us"])
    if found["write_us"] > 5:
        return slow(name, text, "the mapping is slow: is the process bound to the GPU's NUMA node?")
    return ok(name, text)


def check_cufile(gpus):
    """Checks whether files of this folder could be accessed by GPUDirect Storage."""
    name = "cuFile"
    if not gpus:
        return unchecked(name, "no GPU")
    found = probe("storage", library.path(), os.getcwd())
    if "error" in found:
        return broken(name, found["error"], "set WEFT_IO_CUFILE=off, or reinstall GPUDirect Storage")
    if found["gpu_path"] != "cufile":
        return unchecked(name, "files of GPU memory go through pinned host memory: " + found["no_cufile"],
                         "if files of GPU memory matter, install GPUDirect Storage (nvidia-gds)")  # fmt: skip
    return ok(name, "opened; used on {} after a checked read".format(found["file_system"]))


def check_opened(name, network, gpu_memory_marker, remedy, gpus):
    """Checks the network library that Weft loads, if the library's own tool is not installed."""
    found = probe("networks", library.path())
    text = found.get(network, found.get("error", "this version of Weft does not report it"))
    if "error" in found or network not in found:
        return broken(name, text, "reinstall Weft for this machine")
    if text.startswith("not usable: UCX "):  # it was opened
        return broken(name, text[len("not usable: ") :], OPENED_UCX_REMEDY)
    if text.startswith("not usable: "):
        return unchecked(name, text[len("not usable: ") :])
    if not gpus:
        return unchecked(name, text + "; no GPU to test")
    if gpu_memory_marker in text:
        return ok(name, text)
    return slow(name, text + ": between hosts, GPU memory is staged through host memory", remedy)


def check_ucx(gpus):
    tool = shutil.which("ucx_info")
    if not tool:
        return check_opened("UCX", "ucx", ", cuda", UCX_REMEDY, gpus)
    outcome = children.run([tool, "-d"], 30)
    version = children.run([tool, "-v"], 30).out
    text = next((line.strip("# \n") for line in version.splitlines() if "ersion" in line), "UCX")
    if not outcome.good:
        return broken("UCX", outcome.reason(), "run `ucx_info -d` for its error message")
    transports = {line.split(":", 1)[1].strip() for line in outcome.out.splitlines() if "Transport:" in line}
    with_cuda = sorted(name for name in transports if name.startswith(("cuda", "gdr")))
    if with_cuda:
        return ok("UCX", "{} with {}".format(text, ", ".join(with_cuda)))
    if not gpus:
        return unchecked("UCX", f"{text}; without a GPU ucx_info lists no CUDA transport")
    return slow("UCX", text + ", built without CUDA: between hosts, GPU memory is staged through host memory",
                UCX_REMEDY)  # fmt: skip


def check_libfabric(gpus):
    tool = shutil.which("fi_info")
    if not tool:
        return check_opened("libfabric", "ofi", "device memory direct", LIBFABRIC_REMEDY, gpus)
    outcome = children.run([tool, "-l"], 30)
    if not outcome.good:
        return broken("libfabric", outcome.reason(), "run `fi_info -l` for its error message")
    providers = [line.strip().rstrip(":") for line in outcome.out.splitlines() if line.strip().endswith(":")]
    text = "providers: " + ", ".join(providers)
    if not gpus:
        return unchecked("libfabric", text + "; no GPU to test")
    takes = children.run([tool, "-c", "FI_HMEM"], 30)
    named = sorted({line.split()[-1] for line in takes.out.splitlines() if line.startswith("provider:")})
    if takes.good and named:
        return ok("libfabric", "{}; GPU memory: {}".format(text, ", ".join(named)))
    return slow("libfabric", text + "; none supports GPU memory (FI_HMEM)", LIBFABRIC_REMEDY)


def check_variables():
    """Checks variables of UCX and libfabric that silently disable GPU support."""
    disabling = []
    transports = os.environ.get("UCX_TLS", "")
    if transports and not transports.startswith("^") and transports != "all" and "cuda" not in transports:
        disabling.append(f"UCX_TLS={transports} has no cuda")
    if transports.startswith("^") and "cuda" in transports:
        disabling.append(f"UCX_TLS={transports} excludes cuda")
    if os.environ.get("UCX_IB_GPU_DIRECT_RDMA", "").lower() in ("0", "n", "no", "off"):
        disabling.append("UCX_IB_GPU_DIRECT_RDMA=" + os.environ["UCX_IB_GPU_DIRECT_RDMA"])
    if os.environ.get("FI_HMEM", "").lower() == "system":
        disabling.append("FI_HMEM=system")
    if disabling:
        return slow("environment", "; ".join(disabling), "unset these variables, or add cuda_copy,cuda_ipc to UCX_TLS")
    found = [name for name in GPU_DISABLING_VARIABLES if name in os.environ]
    return ok("environment", "set here: {}".format(", ".join(found)) if found else "no variable disables GPU support")
