# SPDX-License-Identifier: BSD-3-Clause
# weft doctor on simulated machines: every check in each of its states, and real runs on host and emulated memory.
import json
import os
import stat
import struct
import subprocess

import pytest
from weft_mpi import children
from weft_mpi.doctor import gpu, host, network, probe, windows
from weft_mpi.doctor.finding import BROKEN, OK, SLOW, UNCHECKED
from weft_mpi.machine import cuda, pci, system

PREFIX = os.environ["MPI_PREFIX"]


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def by_check(text):
    (findings,) = json.loads(text)["nodes"].values()
    return {finding["check"]: finding for finding in findings}


def test_without_a_gpu(weft, no_driver, machine):
    found = weft("doctor", "--json")
    assert found.status == 0, found.err
    checks = by_check(found.out)
    assert (
        checks["mpiexec and messages"]["status"] == OK
        and "us for 8 bytes" in checks["mpiexec and messages"]["evidence"]
    )
    assert checks["windows"]["status"] == OK and "fetch_and_op (create)" in checks["windows"]["evidence"]
    assert {checks[name]["status"] for name in gpu.ALL_CHECKS} == {UNCHECKED}
    assert checks["gdrcopy"]["status"] == UNCHECKED
    assert all(finding["evidence"] for finding in checks.values())
    shown = weft("doctor", "--only", "gpu").out
    assert "not checked (`weft doctor --all`" in shown and shown.count("no GPU is usable here") == 1
    assert weft("doctor", "--only", "gpu", "--all").out.count("no GPU is usable here") > 5


def test_load(machine):
    machine.write("/proc/loadavg", "0.10 0.1 0.1 1/1 1\n")
    assert host.check_load().status == OK
    machine.write("/proc/loadavg", "999.0 0.1 0.1 1/1 1\n")
    assert host.check_load().status == SLOW and "busy (load 999.0" in host.check_load().evidence


def test_emulated_gpus(weft, emulated, fake_nvml, monkeypatch):
    monkeypatch.setattr(gpu, "PAIR_BYTES", 1 << 20)
    checks = by_check(weft("doctor", "--only", "gpu", "--json").out)
    assert checks["driver and device files"]["status"] == OK
    assert checks["peer access"]["status"] == OK
    assert checks["windows on GPUs"]["status"] == OK and "put " in checks["windows on GPUs"]["evidence"]
    assert checks["CUDA IPC"]["status"] == SLOW  # an emulated GPU does not copy at the speed of 18 NVLinks
    assert "18 NVLinks of 25 GB/s" in checks["CUDA IPC"]["evidence"]
    found = weft("doctor", "--only", "gpu", "--strict")
    assert found.status == 1 and "see 1" in found.out and "1. check nvidia-smi topo" in found.out
    driver = cuda.Driver()
    monkeypatch.setattr(driver, "peer_access", lambda one, other: False)
    assert gpu.check_peer_access(driver, driver.devices()).status == SLOW
    assert gpu.check_peer_access(driver, driver.devices()[:1]).status == UNCHECKED


def test_a_program_that_fails(emulated, monkeypatch):
    monkeypatch.setenv("EMUCUDA_FAIL", "cuMemAlloc_v2:1:2")
    monkeypatch.setattr(host.prefix, "program", lambda name: "/bin/false")
    findings = list(gpu.check_pairs(cuda.Driver().devices(), None, {}))
    assert [finding.status for finding in findings] == [BROKEN, UNCHECKED]
    assert [finding.status for finding in host.check_messages()] == [BROKEN, UNCHECKED]
    assert windows.check_host().status == BROKEN


@pytest.mark.parametrize("variable,value,check,status", [
    ("FAKE_NVML_MIG", "1", gpu.check_mode, SLOW),
    ("FAKE_NVML_MODE", "2", gpu.check_mode, BROKEN),
    ("FAKE_NVML_MODE", "3", gpu.check_mode, SLOW),
    ("FAKE_NVML_MODE", "0", gpu.check_mode, OK),
    ("FAKE_NVML_ECC", "3", gpu.check_ecc, BROKEN),
    ("FAKE_NVML_ECC", "0", gpu.check_ecc, OK),
    ("FAKE_NVML_NO_ECC", "1", gpu.check_ecc, UNCHECKED),
    ("FAKE_NVML_THROTTLE", "0x40", gpu.check_clocks, SLOW),
    ("FAKE_NVML_THROTTLE", "0", gpu.check_clocks, OK),
    ("FAKE_NVML_WIDTH", "8", gpu.check_pcie, SLOW),
    ("FAKE_NVML_WIDTH", "16", gpu.check_pcie, OK),
])  # fmt: skip
def test_health(fake_nvml, monkeypatch, variable, value, check, status):
    monkeypatch.setenv(variable, value)
    manager, _ = gpu.nvml.open_nvml()
    finding = check(manager, {0: manager.device("0000:10:00.0")}, "")
    assert finding.status == status and bool(finding.remedy) == (status in (SLOW, BROKEN))
    assert check(None, {}, "no NVML").status == UNCHECKED


def test_exclusive_gpus_under_mps(fake_nvml, monkeypatch):
    monkeypatch.setenv("FAKE_NVML_MODE", "3")
    manager, _ = gpu.nvml.open_nvml()
    finding = gpu.check_mode(manager, {0: manager.device("0000:10:00.0")}, "", {"on"})
    assert finding.status == OK and "exclusive process; MPS: on" in finding.evidence


def test_nvml_that_does_not_start(fake_nvml, monkeypatch):
    monkeypatch.setenv("FAKE_NVML_INIT", "9")
    assert gpu.nvml.open_nvml() == (None, gpu.nvml.LIBRARY + ": nvmlInit: error 9")


def test_driver_and_files(machine, monkeypatch):
    monkeypatch.delenv("WEFT_CUDA_DRIVER", raising=False)
    machine.gpu("pci0000:00/0000:00:01.0/0000:10:00.0")
    assert gpu.check_driver()[1].status == BROKEN and "/dev/nvidiactl" in gpu.check_driver()[1].evidence
    machine.write("/dev/nvidiactl")
    machine.write("/dev/nvidia-uvm")
    monkeypatch.setattr(cuda, "library_name", lambda: "libnot-there.so")
    assert "libnot-there" in gpu.check_driver()[1].evidence


def test_old_driver(emulated, monkeypatch):
    monkeypatch.setenv("EMUCUDA_VERSION", "11000")
    driver, finding = gpu.check_driver()
    assert driver and finding.status == BROKEN and "11.3" in finding.remedy


def test_slurm_hides_gpus(machine, emulated, monkeypatch):
    for slot in range(4):
        machine.gpu("pci0000:00/0000:00:0%d.0/0000:1%d:00.0" % (slot, slot))
    devices = [{"name": "GPU", "ordinal": 0}]
    assert gpu.check_visible(devices).status == OK
    monkeypatch.setenv("SLURM_GPUS_PER_TASK", "1")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for minor in range(4):
        machine.write(f"/proc/driver/nvidia/gpus/0000:1{minor}:00.0/information",
                      f"Model: \t GPU\nDevice Minor: \t {minor}\nGPU Excluded: \t No\n")  # fmt: skip
    machine.write("/dev/nvidia0")
    finding = gpu.check_visible(devices)
    assert finding.status == SLOW and "--gres-flags=allow-task-sharing" in finding.remedy
    assert "1 of 4" in finding.evidence and "/dev/nvidia1, /dev/nvidia2, /dev/nvidia3 cannot" in finding.evidence
    for minor in range(4):
        machine.write(f"/dev/nvidia{minor}")
    finding = gpu.check_visible(devices)
    assert finding.status == OK and "ranks map the memory of hidden GPUs" in finding.evidence


def test_evaluated_pairs(fake_nvml, monkeypatch):
    manager, _ = gpu.nvml.open_nvml()
    handles = {0: manager.device("a"), 1: manager.device("b")}
    good = {"from": 0, "to": 1, "error": "", "ipc_gb_s": 380, "latency_us": 5, "message_gb_s": 370}
    assert gpu.evaluate_mappings([good], [0, 1], manager, handles).status == OK
    assert gpu.evaluate_mappings([{**good, "error": "invalid handle"}], [0, 1], manager, handles).status == BROKEN
    assert gpu.evaluate_mappings([{**good, "ipc_gb_s": 50}], [0, 1], manager, handles).status == SLOW
    monkeypatch.setenv("FAKE_NVML_LINKS", "0")
    found = gpu.evaluate_mappings([{**good, "ipc_gb_s": 50}], [0, 1], manager, handles)
    assert found.status == OK and "PCIe gen 5 x16" in found.evidence
    assert gpu.evaluate_messages([good], ["slow path p2p.device_not_mapped (why): half"]).status == SLOW
    assert gpu.evaluate_messages([good], []).status == OK
    errors = "weft[0]: slow path a (b): c\nweft[1]: slow path a (b): c\nother\n"
    assert children.Outcome(0, None, False, "", errors).slow_paths() == ["slow path a (b): c"]


def test_descriptors(monkeypatch):
    assert gpu.descriptors.why_not_taken() == "" and gpu.descriptors.why_not_sent() == ""
    assert gpu.check_descriptors().status == OK
    refuse = {gpu.descriptors.PIDFD_GETFD: (-1, "Operation not permitted")}
    real = gpu.descriptors.call
    monkeypatch.setattr(gpu.descriptors, "call", lambda number, *rest: refuse.get(number) or real(number, *rest))
    found = gpu.check_descriptors()
    assert found.status == OK and "pidfd_getfd: Operation not permitted" in found.evidence
    monkeypatch.setattr(gpu.descriptors, "why_not_sent", lambda: "Permission denied")
    found = gpu.check_descriptors()
    assert found.status == SLOW and "SYS_PTRACE" in found.remedy


def test_host_limits(machine, monkeypatch):
    assert host.check_ptrace().status == OK
    machine.write("/proc/sys/kernel/yama/ptrace_scope", "1\n")
    assert host.check_ptrace().status == OK
    machine.write("/proc/sys/kernel/yama/ptrace_scope", "2\n")
    assert host.check_ptrace().status == SLOW
    assert host.check_shm().evidence.startswith("not mounted")
    monkeypatch.setattr(system, "shm_bytes", lambda: (64 << 20, 1 << 20))
    monkeypatch.setattr(system, "shm_is_writable", lambda: False)
    assert host.check_shm().status == SLOW and "chmod 1777 /dev/shm" in host.check_shm().remedy
    monkeypatch.setattr(system, "shm_is_writable", lambda: True)
    assert host.check_shm().status == SLOW and "--shm-size" in host.check_shm().remedy
    monkeypatch.setattr(system, "memlock_bytes", lambda: 65536)
    assert host.check_memlock().status == OK
    machine.nic("mlx5_0", "pci0000:00/0000:00:01.0/0000:12:00.0")
    assert host.check_memlock().status == BROKEN
    monkeypatch.setattr(system, "memlock_bytes", lambda: None)
    assert host.check_memlock().status == OK
    machine.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
    machine.write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0")
    assert host.check_hugepages().status == SLOW
    machine.write("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "8")
    assert host.check_hugepages().status == OK and "8 of 2048 KiB" in host.check_hugepages().evidence
    assert host.check_governor().status == UNCHECKED
    machine.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    assert host.check_governor().status == SLOW
    machine.write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    assert host.check_governor().status == OK


def test_a_broken_setting(monkeypatch):
    monkeypatch.setenv("WEFT_P2P_CREDIT", "many")
    assert host.check_library().status == BROKEN and "WEFT_P2P_CREDIT" in host.check_library().evidence


def test_no_single_copy(monkeypatch):
    line = {"from": 0, "to": 1, "error": "", "latency_us": 1, "message_gb_s": 2}
    outcome = host.children.Outcome(0, None, False, "", "")
    monkeypatch.setattr(
        host, "run_pairs", lambda *_: (outcome, [line], ["slow path p2p.no_single_copy (EPERM): twice"])
    )
    assert [finding.status for finding in host.check_messages()] == [OK, SLOW]


def test_windows_by_messages(monkeypatch):
    monkeypatch.setenv("WEFT_SHM_SINGLE_COPY", "off")
    found = windows.check_host()
    assert found.status == SLOW and "slow path rma.message" in found.evidence and found.remedy


def extended(capability, control):
    """Returns a configuration space with one extended capability."""
    space = bytearray(4096)
    struct.pack_into("<IHH", space, 0x100, capability | 1 << 16, 0, control)
    return bytes(space)


def test_iommu_and_acs(machine):
    assert host.check_iommu().status == UNCHECKED
    bridge = machine.pci("pci0000:00/0000:00:01.0", 0x8086, 0x060400, config=extended(0x000D, 0))
    machine.gpu("pci0000:00/0000:00:01.0/0000:10:00.0")
    assert host.check_iommu().status == OK
    machine.write(bridge + "/config", extended(0x000D, 0x0004))
    assert host.check_iommu().status == SLOW and "0000:00:01.0" in host.check_iommu().evidence
    machine.write(bridge + "/config", b"short")
    assert host.check_iommu().status == UNCHECKED
    machine.write(bridge + "/config", extended(0x0001, 0x0004))
    machine.write("/sys/kernel/iommu_groups/0/type", "identity\n")
    assert host.check_iommu().status == OK and "passthrough" in host.check_iommu().evidence
    machine.write("/sys/kernel/iommu_groups/1/type", "DMA-FQ\n")
    assert host.check_iommu().status == SLOW


def test_containers(machine, monkeypatch):
    assert system.container() is None
    monkeypatch.setenv("APPTAINER_NAME", "x")
    assert system.container() == "apptainer"
    machine.write("/run/.containerenv")
    assert system.container() == "podman"
    machine.write("/.dockerenv")
    assert "docker" in host.check_pid_namespace().evidence


def test_distances(machine):
    machine.gpu("pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:00.0/0000:10:00.0", numa=0)
    machine.nic("a", "pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:00.0/0000:11:00.0")
    machine.nic("b", "pci0000:00/0000:00:01.0/0000:05:00.0/0000:06:00.0/0000:12:00.0")
    machine.nic("c", "pci0000:00/0000:00:05.0/0000:13:00.0")
    machine.nic("d", "pci0000:80/0000:80:01.0/0000:81:00.0", numa=0)
    machine.nic("e", "pci0000:c0/0000:c0:01.0/0000:c1:00.0", numa=1)
    far = {nic.name: pci.distance("00000000:10:00.0", nic.pci) for nic in pci.nics()}
    assert far == {"a": "PIX", "b": "PXB", "c": "PHB", "d": "NODE", "e": "SYS"}
    assert pci.distance("0000:10:00.0", "0000:99:00.0") is None
    assert network.check_affinity(pci.nics()).status == OK
    only_far = [nic for nic in pci.nics() if nic.name == "e"]
    assert network.check_affinity(only_far).status == SLOW
    assert network.check_affinity([]).status == UNCHECKED


def test_adapters(machine):
    assert network.check_adapters([]).status == UNCHECKED
    machine.nic("mlx5_0", "pci0000:00/0000:00:01.0/0000:12:00.0", state="1: DOWN")
    assert network.check_adapters(pci.nics()).status == BROKEN
    machine.nic("mlx5_1", "pci0000:00/0000:00:02.0/0000:13:00.0")
    assert network.check_adapters(pci.nics()).status == SLOW
    active = [nic for nic in pci.nics() if nic.name == "mlx5_1"]
    assert network.check_adapters(active).status == BROKEN  # /dev/infiniband is missing
    machine.write("/dev/infiniband/uverbs0")
    assert network.check_adapters(active).status == OK
    machine.link("/sys/class/cxi/cxi0/device", machine.pci("pci0000:40/0000:40:01.0/0000:41:00.0", 0x1590, 0x020000))
    assert pci.nics()[-1].link == "Slingshot"


def fakes(monkeypatch):
    monkeypatch.setattr(probe, "GDRAPI", os.path.join(os.environ["FAKES"], "libcli_fake_gdrapi.so"))
    monkeypatch.setattr(probe, "VERBS", os.path.join(os.environ["FAKES"], "libcli_fake_verbs.so"))


def run_in_process(name):
    try:
        return {"gdrcopy": probe.gdrcopy, "register": probe.register}[name]()
    except cuda.Unavailable as reason:
        return {"error": str(reason)}


def test_gdrcopy(machine, emulated, monkeypatch):
    assert network.check_gdrcopy(0).status == UNCHECKED
    assert network.check_gdrcopy(1).status == UNCHECKED
    machine.write("/sys/module/gdrdrv/version")
    assert network.check_gdrcopy(1).status == BROKEN and "/dev/gdrdrv" in network.check_gdrcopy(1).evidence
    machine.write("/dev/gdrdrv")
    assert network.check_gdrcopy(1).status == BROKEN  # in a child: the library is not installed
    fakes(monkeypatch)
    monkeypatch.setattr(network, "probe", run_in_process)
    assert network.check_gdrcopy(1).status == OK
    for failure in ("open", "pin", "map", "lost"):
        monkeypatch.setenv("FAKE_GDR", failure)
        assert network.check_gdrcopy(1).status == BROKEN
    monkeypatch.setattr(network, "probe", lambda name: {"write_us": 50})
    assert network.check_gdrcopy(1).status == SLOW


def test_cufile(emulated, monkeypatch):
    assert network.check_cufile(0).status == UNCHECKED
    found = network.check_cufile(1)  # in a child
    assert found.status == UNCHECKED and "libcufile.so.0" in found.evidence
    facts = {"gpu_path": "cufile", "no_cufile": "", "file_system": "XFS"}
    monkeypatch.setattr(network, "probe", lambda *words: facts)
    assert network.check_cufile(1).status == OK and "XFS" in network.check_cufile(1).evidence
    monkeypatch.setattr(network, "probe", lambda *words: {"error": "it crashed"})
    assert network.check_cufile(1).status == BROKEN


def test_registration(machine, emulated, monkeypatch):
    machine.nic("mlx5_0", "pci0000:00/0000:00:01.0/0000:12:00.0")
    adapters = pci.nics()
    assert network.check_registration([], 1).status == UNCHECKED
    fakes(monkeypatch)
    monkeypatch.setattr(network, "probe", run_in_process)
    found = network.check_registration(adapters, 1)
    assert found.status == OK and "peer memory" in found.evidence and "neither" in found.evidence
    machine.write("/sys/module/nv_peer_mem/version")
    assert network.check_registration(adapters, 1).status == SLOW
    for failure in ("none", "closed", "refuse"):
        monkeypatch.setenv("FAKE_VERBS", failure)
        assert network.check_registration(adapters, 1).status == BROKEN
    slingshot = [adapters[0]._replace(link="Slingshot")]
    assert network.check_registration(slingshot, 1).status == UNCHECKED


def test_probe_in_a_child(emulated):
    done = subprocess.run(
        children.python("weft_mpi.doctor.probe", "register"), capture_output=True, text=True, check=True
    )
    assert "devices" in json.loads(done.stdout) or "error" in json.loads(done.stdout)
    assert "error" in network.probe("gdrcopy")
    assert "error" in network.probe("nonsense")


def test_ucx_and_libfabric(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path) + ":/usr/bin:/bin")
    monkeypatch.setattr(network.shutil, "which", lambda name: next(
        (str(tmp_path / name) for _ in [0] if (tmp_path / name).exists()), None))  # fmt: skip
    script(tmp_path / "ucx_info", 'if [ $1 = -v ]; then echo "# Library version: 1.17.0"; else\n'
           'echo "#      Transport: rc_mlx5"; echo "#      Transport: $EXTRA"; fi')  # fmt: skip
    monkeypatch.setenv("EXTRA", "cuda_copy")
    assert network.check_ucx(1).status == OK and "1.17.0" in network.check_ucx(1).evidence
    monkeypatch.setenv("EXTRA", "tcp")
    assert network.check_ucx(1).status == SLOW and network.check_ucx(0).status == UNCHECKED
    script(tmp_path / "ucx_info", "exit 1")
    assert network.check_ucx(1).status == BROKEN
    script(tmp_path / "fi_info", 'if [ $1 = -l ]; then echo "tcp:"; else [ "$EXTRA" = tcp ] || exit 1; '
           'echo "provider: verbs"; fi')  # fmt: skip
    assert network.check_libfabric(1).status == OK and network.check_libfabric(0).status == UNCHECKED
    monkeypatch.setenv("EXTRA", "none")
    assert network.check_libfabric(1).status == SLOW
    script(tmp_path / "fi_info", "exit 1")
    assert network.check_libfabric(1).status == BROKEN


def test_networks_without_their_tools(monkeypatch):
    """Without ucx_info and fi_info the checks report the libraries that Weft opens."""
    monkeypatch.setattr(network.shutil, "which", lambda name: None)
    monkeypatch.setenv("WEFT_NET_UCX_LIBRARY", "/nowhere/libucp.so.0")
    monkeypatch.setenv("WEFT_NET_OFI_LIBRARY", "/nowhere/libfabric.so.1")
    for found in (network.check_ucx(1), network.check_libfabric(1)):
        assert found.status == UNCHECKED and "/nowhere/" in found.evidence, found
    opened = {"ucx": "UCX 1.17.0 (libucp.so.0), memory: host, cuda", "ofi": "libfabric 2.1 (libfabric.so.1), provider "
              "cxi, device memory direct"}  # fmt: skip
    monkeypatch.setattr(network, "probe", lambda name, path: opened)
    assert network.check_ucx(1).status == OK and network.check_libfabric(1).status == OK
    assert network.check_ucx(0).status == UNCHECKED
    opened["ucx"] = "UCX 1.17.0 (libucp.so.0), memory: host, built without CUDA"
    opened["ofi"] = opened["ofi"].replace("direct", "staged")
    assert network.check_ucx(1).status == SLOW and network.check_libfabric(1).status == SLOW
    opened["ucx"] = "not usable: UCX 1.22.0 (libucp.so.0): ucp_worker_create failed (Shared memory error)"
    found = network.check_ucx(0)
    assert found.status == BROKEN and found.evidence.startswith("UCX 1.22.0") and "UCX_TLS=^posix" in found.remedy
    opened.clear()
    assert network.check_ucx(1).status == BROKEN


@pytest.mark.parametrize("variable,value,status", [
    ("UCX_TLS", "rc,sm", SLOW), ("UCX_TLS", "^cuda_ipc", SLOW), ("UCX_TLS", "rc,cuda_copy", OK), ("UCX_TLS", "all", OK),
    ("UCX_IB_GPU_DIRECT_RDMA", "n", SLOW), ("FI_HMEM", "system", SLOW), ("FI_HMEM", "cuda", OK),
])  # fmt: skip
def test_variables(monkeypatch, variable, value, status):
    assert network.check_variables().status == OK
    monkeypatch.setenv(variable, value)
    assert network.check_variables().status == status
