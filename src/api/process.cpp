// SPDX-License-Identifier: BSD-3-Clause
// Processes that are created and that connect (MPI 5.0 sections 11.8 to 11.10).
#include "api/process.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "api/check.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "core/instance.hpp"
#include "launch/environment.hpp"
#include "launch/names.hpp"
#include "spawn/port.hpp"
#include "spawn/spawn.hpp"

namespace weft::api {
namespace {

core::Communicator* g_parent = nullptr;  // null: none, or it was freed

}  // namespace

void set_parent(core::Communicator* parent) { g_parent = parent; }

bool is_parent(const core::Communicator& comm) { return g_parent == &comm; }

void forget_parent(const core::Communicator& comm) {
  if (g_parent == &comm) g_parent = nullptr;
}

namespace impl {
namespace {

constexpr int kMaxTimeout = 1 << 20;

Status check_intracommunicator(const core::Communicator& comm) {
  if (!comm.inter()) return {};
  return Error(Errc::comm, "comm is an intercommunicator: an intracommunicator is needed");
}

bool is_root(const core::Communicator& comm, int root) { return comm.rank() == root; }

std::string text_of(const char* text, size_t most) { return {text, strnlen(text, most)}; }

std::string port_text(const char* port_name) { return text_of(port_name, MPI_MAX_PORT_NAME); }

Result<std::string> service_text(const char* service_name) {
  std::string name = text_of(service_name, launch::kMaxServiceName + 1);
  if (!name.empty() && name.size() <= launch::kMaxServiceName) return name;
  return Error(Errc::arg, "service_name has " + std::to_string(name.size()) + " characters or more: 1 to " +
                              std::to_string(launch::kMaxServiceName) + " are possible");
}

Result<p2p::Reach> reach_of(const core::Info* info) {
  const auto text = info == nullptr ? std::nullopt : info->get("weft_reach");
  if (!text) return spawn::default_reach(*g_instance);
  if (const auto reach = spawn::parse_reach(*text)) return *reach;
  return Error(Errc::info_value, "weft_reach = " + std::string(*text) + ": use host or anywhere");
}

/// Seconds of the info key `timeout`; 0: not given.
Result<size_t> timeout_of(const core::Info* info) {
  const auto text = info == nullptr ? std::nullopt : info->get("timeout");
  if (!text) return size_t{0};
  if (const auto seconds = launch::parse_int(*text, 1, kMaxTimeout)) return static_cast<size_t>(*seconds);
  return Error(Errc::info_value, "timeout = " + std::string(*text) + ": use a number of seconds from 1 to " +
                                     std::to_string(kMaxTimeout));
}

Result<spawn::Program> program_of(const char* command, char* const* argv, int maxprocs,
                                  const core::Info* info) {
  spawn::Program program;
  program.command = command;
  if (program.command.empty()) return Error(Errc::arg, "command is empty: name a program");
  if (maxprocs < 1)
    return Error(Errc::arg, "maxprocs = " + std::to_string(maxprocs) + ": at least one process is started");
  program.processes = maxprocs;
  for (; argv != nullptr && *argv != nullptr; ++argv) program.arguments.emplace_back(*argv);
  for (size_t i = 0; info != nullptr && i < info->size(); ++i) program.info.push_back(info->entry(i));
  return program;
}

/// Stores the codes of all processes that the root has asked for.
void return_codes(const spawn::Started& started, int* codes) {
  if (codes == MPI_ERRCODES_IGNORE) return;
  for (size_t i = 0; i < started.processes; ++i)
    codes[i] = !started.process.empty() && started.process[i] != 0 ? MPI_SUCCESS : MPI_ERR_SPAWN;
}

Status run(Result<std::vector<spawn::Program>> programs, int root, core::Communicator& comm,
           MPI_Comm* intercomm, int* codes) {
  spawn::Started started;
  auto made = spawn::spawn(comm, root, std::move(programs), started);
  return_codes(started, codes);
  return return_communicator(std::move(made), intercomm);
}

}  // namespace

Status Open_port(core::Info* info, char* port_name) {
  auto reach = reach_of(info);
  if (!reach) return std::move(reach).error();
  auto port = p2p::open_port(*g_instance, *reach);
  if (!port) return std::move(port).error();
  if (port->name.size() >= MPI_MAX_PORT_NAME) {
    p2p::close_port(*g_instance, port->number);
    return Error(Errc::intern, "the name of a port has " + std::to_string(port->name.size()) +
                                   " characters, more than MPI_MAX_PORT_NAME: use fewer networks (UCX_TLS, "
                                   "UCX_NET_DEVICES)");
  }
  int length = 0;
  copy_text(port->name, port_name, MPI_MAX_PORT_NAME, &length);
  return {};
}

Status Close_port(const char* port_name) {
  auto number = p2p::find_port(*g_instance, port_text(port_name));
  if (!number) return std::move(number).error();
  p2p::close_port(*g_instance, *number);
  return {};
}

Status Comm_accept(const char* port_name, core::Info*, int root, core::Communicator& comm,
                   MPI_Comm* newcomm) {
  WEFT_TRY(check_intracommunicator(comm));
  p2p::PortNumber port = 0;
  if (is_root(comm, root)) {
    auto number = p2p::find_port(comm.instance, port_text(port_name));
    if (!number) return return_communicator(coll::fail_job(comm, root, std::move(number).error()), newcomm);
    port = *number;
  }
  return return_communicator(coll::accept_job(comm, root, port), newcomm);
}

Status Comm_connect(const char* port_name, core::Info* info, int root, core::Communicator& comm,
                    MPI_Comm* newcomm) {
  WEFT_TRY(check_intracommunicator(comm));
  if (!is_root(comm, root)) return return_communicator(coll::connect_job(comm, root, ""), newcomm);
  auto timeout = timeout_of(info);
  if (!timeout) return return_communicator(coll::fail_job(comm, root, std::move(timeout).error()), newcomm);
  return return_communicator(coll::connect_job(comm, root, port_text(port_name), *timeout), newcomm);
}

Status Comm_join(int fd, MPI_Comm* intercomm) {
  core::Communicator* const self = to_communicator(MPI_COMM_SELF);
  if (self == nullptr) return Error(Errc::other, "MPI_Comm_join after MPI_Finalize");
  return return_communicator(spawn::join(*self, fd), intercomm);
}

Status Comm_get_parent(MPI_Comm* parent) {
  *parent = g_parent == nullptr ? MPI_COMM_NULL : handle_of(*g_parent);
  return {};
}

Status Comm_spawn(const char* command, char** argv, int maxprocs, core::Info* info, int root,
                  core::Communicator& comm, MPI_Comm* intercomm, int* array_of_errcodes) {
  WEFT_TRY(check_intracommunicator(comm));
  std::vector<spawn::Program> programs;
  if (is_root(comm, root)) {
    auto program = program_of(command, argv, maxprocs, info);
    if (!program) return run(std::move(program).error(), root, comm, intercomm, array_of_errcodes);
    programs.push_back(std::move(*program));
  }
  return run(std::move(programs), root, comm, intercomm, array_of_errcodes);
}

Status Comm_spawn_multiple(int count, char** array_of_commands, char*** array_of_argv,
                           const int* array_of_maxprocs, const MPI_Info* array_of_info, int root,
                           core::Communicator& comm, MPI_Comm* intercomm, int* array_of_errcodes) {
  WEFT_TRY(check_intracommunicator(comm));
  std::vector<spawn::Program> programs;
  const auto fail = [&](Error why) { return run(std::move(why), root, comm, intercomm, array_of_errcodes); };
  if (is_root(comm, root)) {
    if (count < 1)
      return fail(Error(Errc::arg, "count = " + std::to_string(count) + ": at least one command is started"));
    if (array_of_commands == nullptr) return fail(null_pointer("array_of_commands"));
    if (array_of_maxprocs == nullptr) return fail(null_pointer("array_of_maxprocs"));
    if (array_of_info == nullptr) return fail(null_pointer("array_of_info"));
    for (int i = 0; i < count; ++i) {
      if (array_of_commands[i] == nullptr) return fail(null_pointer("array_of_commands[i]"));
      const core::Info* const info = to_info(array_of_info[i]);
      if (info == nullptr && array_of_info[i] != MPI_INFO_NULL)
        return fail(bad_handle(HandleKind::info, "array_of_info[i]", array_of_info[i]));
      auto program =
          program_of(array_of_commands[i], array_of_argv == MPI_ARGVS_NULL ? nullptr : array_of_argv[i],
                     array_of_maxprocs[i], info);
      if (!program) return fail(std::move(program).error());
      programs.push_back(std::move(*program));
    }
  }
  return run(std::move(programs), root, comm, intercomm, array_of_errcodes);
}

Status Publish_name(const char* service_name, core::Info*, const char* port_name) {
  auto name = service_text(service_name);
  if (!name) return std::move(name).error();
  return g_instance->exchange->publish(*name, port_text(port_name));
}

Status Unpublish_name(const char* service_name, core::Info*, const char*) {
  auto name = service_text(service_name);
  if (!name) return std::move(name).error();
  Status done = g_instance->exchange->unpublish(*name);
  if (done.ok() || done.error().code() != Errc::name) return done;
  return Error(Errc::service, done.error().message());  // its class of unknown names (section 9.4)
}

Status Lookup_name(const char* service_name, core::Info*, char* port_name) {
  auto name = service_text(service_name);
  if (!name) return std::move(name).error();
  auto port = g_instance->exchange->lookup(*name);
  if (!port) return std::move(port).error();
  int length = 0;
  copy_text(*port, port_name, MPI_MAX_PORT_NAME, &length);
  return {};
}

}  // namespace impl
}  // namespace weft::api
