// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/jobs.hpp"

#include "p2p/engine/engine.hpp"
#include "p2p/engine/job_connections.hpp"

namespace weft::p2p {

Result<std::string> job_address(core::Instance& instance, Reach reach) {
  return engine_of(instance).jobs.address(reach);
}
void release_job_address(core::Instance& instance) { engine_of(instance).jobs.release_address(); }
Result<Port> open_port(core::Instance& instance, Reach reach) {
  return engine_of(instance).jobs.open_port(reach);
}
bool close_port(core::Instance& instance, PortNumber number) {
  return engine_of(instance).jobs.close_port(number);
}
Result<PortNumber> find_port(core::Instance& instance, const std::string& name) {
  return engine_of(instance).jobs.find_port(name);
}
Result<JobConnection> connect_process(core::Instance& instance, const std::string& port_name,
                                      size_t timeout_s) {
  return engine_of(instance).jobs.connect(port_name, timeout_s);
}
Result<std::optional<JobConnection>> accept_process(core::Instance& instance, PortNumber port) {
  return engine_of(instance).jobs.accept(port);
}
Result<core::ProcessId> add_process(core::Instance& instance, const std::string& address) {
  return engine_of(instance).jobs.add(address);
}
void learn_hosts(core::Instance& instance, const std::string& addresses) {
  engine_of(instance).jobs.learn_hosts(addresses);
}
void allow_rings(core::Instance& instance, std::span<const core::ProcessId> processes) {
  engine_of(instance).jobs.allow_rings(processes);
}
void release(core::Instance& instance, std::span<const core::ProcessId> processes) {
  engine_of(instance).jobs.release(processes);
}
Status disconnect(core::Instance& instance, std::span<const core::ProcessId> processes) {
  return engine_of(instance).jobs.disconnect(processes);
}
void give_up(core::Instance& instance, std::span<const core::ProcessId> processes) {
  for (const core::ProcessId process : processes) engine_of(instance).jobs.give_up(process);
}
void abandon(core::Instance& instance, std::span<const core::ProcessId> processes) {
  engine_of(instance).jobs.abandon(processes);
}

}  // namespace weft::p2p
