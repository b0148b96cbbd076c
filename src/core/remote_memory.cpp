// SPDX-License-Identifier: BSD-3-Clause
#include "core/remote_memory.hpp"

#include "core/memory_registry.hpp"
#include "transport/shm/shm.hpp"

namespace weft::core {

RemoteMemory::RemoteMemory(Instance& instance) : instance_(instance), rma_(*this) {
  instance_.add(*this);
  instance_.failures.add([this](ProcessId process, const Error& why) { rma_.lost(process, why); });
  instance_.processes.on_removed([this](ProcessId process) { rma_.forget(process); });
}

RemoteMemory::~RemoteMemory() { instance_.remove(*this); }

Result<int> RemoteMemory::pid_of(ProcessId process) {
  if (instance_.shm == nullptr || !same_host(process))
    return Error(Errc::unsupported,
                 "process " + std::to_string(process) + " shares no memory with this process");
  return instance_.shm->pid_of(process);
}

transport::Network* RemoteMemory::network(ProcessId process) {
  return same_host(process) ? nullptr : instance_.network;
}

transport::cuda_ipc::Exporter& RemoteMemory::exporter() {
  instance_.memory->withdraw_freed();
  return instance_.memory->exporter();
}

transport::cuda_ipc::Importer& RemoteMemory::importer() { return instance_.memory->importer(); }

}  // namespace weft::core
