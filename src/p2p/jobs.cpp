// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/jobs.hpp"

#include "p2p/engine.hpp"
#include "p2p/job_connections.hpp"

namespace weft::p2p {

Result<std::string> job_address(core::Instance& instance, Reach reach) {
  return instance.engine->jobs().address(reach);
}
void release_job_address(core::Instance& instance) { instance.engine->jobs().release_address(); }
Result<Port> open_port(core::Instance& instance, Reach reach) {
  return instance.engine->jobs().open_port(reach);
}
bool close_port(core::Instance& instance, PortNumber number) {
  return instance.engine->jobs().close_port(number);
}
Result<PortNumber> find_port(core::Instance& instance, const std::string& name) {
  return instance.engine->jobs().find_port(name);
}
Result<JobConnection> connect_process(core::Instance& instance, const std::string& port_name,
                                      size_t timeout_s) {
  return instance.engine->jobs().connect(port_name, timeout_s);
}
Result<std::optional<JobConnection>> accept_process(core::Instance& instance, PortNumber port) {
  return instance.engine->jobs().accept(port);
}
Result<core::ProcessId> add_process(core::Instance& instance, const std::string& address) {
  return instance.engine->jobs().add(address);
}
void allow_rings(core::Instance& instance, std::span<const core::ProcessId> processes) {
  instance.engine->jobs().allow_rings(processes);
}
void release(core::Instance& instance, std::span<const core::ProcessId> processes) {
  instance.engine->jobs().release(processes);
}
Status disconnect(core::Instance& instance, std::span<const core::ProcessId> processes) {
  return instance.engine->jobs().disconnect(processes);
}
void give_up(core::Instance& instance, std::span<const core::ProcessId> processes) {
  for (const core::ProcessId process : processes) instance.engine->jobs().give_up(process);
}
void abandon(core::Instance& instance, std::span<const core::ProcessId> processes) {
  instance.engine->jobs().abandon(processes);
}

}  // namespace weft::p2p
