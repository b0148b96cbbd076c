// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/jobs.hpp"

#include "p2p/engine.hpp"
#include "p2p/job_connections.hpp"

namespace weft::p2p {

Result<std::string> job_address(core::Instance& instance, Reach reach) {
  return instance.engine->jobs().address(reach);
}
void close_job_address(core::Instance& instance) { instance.engine->jobs().close_address(); }
Result<JobConnection> connect_process(core::Instance& instance, const std::string& address) {
  return instance.engine->jobs().connect(address);
}
Result<std::optional<JobConnection>> accept_process(core::Instance& instance) {
  return instance.engine->jobs().accept();
}
Result<core::ProcessId> add_process(core::Instance& instance, const std::string& address) {
  return instance.engine->jobs().add(address);
}
void allow_rings(core::Instance& instance, std::span<const core::ProcessId> processes) {
  instance.engine->jobs().allow_rings(processes);
}
Status disconnect(core::Instance& instance, std::span<const core::ProcessId> processes) {
  return instance.engine->jobs().disconnect(processes);
}

}  // namespace weft::p2p
