// SPDX-License-Identifier: BSD-3-Clause
// Sessions and their process sets (MPI 5.0 sections 11.3 and 7.3.2).
#include "core/session.hpp"

#include <mpi.h>
#include <strings.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "api/errors.hpp"
#include "api/impl.hpp"
#include "api/instance.hpp"
#include "api/memory_kinds.hpp"
#include "api/objects.hpp"
#include "p2p/p2p.hpp"

namespace weft::api::impl {
namespace {

using core::ProcessId;
using core::Session;

/// Thread level of the hint thread_level. Default MPI_THREAD_MULTIPLE, because independent components of a
/// program open sessions.
int thread_level(const core::Info* info) {
  const auto wanted = info == nullptr ? std::nullopt : info->get("thread_level");
  for (const int level : {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED})
    if (wanted == thread_level_name(level)) return level;
  return MPI_THREAD_MULTIPLE;
}

struct ProcessSet {
  const char* name;
  std::vector<ProcessId> (*members)(const core::Instance&);
};

std::vector<ProcessId> all_processes(const core::Instance& instance) {
  std::vector<ProcessId> processes(instance.size);
  std::iota(processes.begin(), processes.end(), ProcessId{0});
  return processes;
}

std::vector<ProcessId> self_only(const core::Instance& instance) { return {instance.self}; }

std::vector<ProcessId> same_host_processes(const core::Instance& instance) {
  std::vector<ProcessId> processes = all_processes(instance);
  std::erase_if(processes, [&](ProcessId process) { return !instance.same_host(process); });
  return processes;
}

constexpr ProcessSet kProcessSets[] = {
    {"mpi://WORLD", all_processes}, {"mpi://SELF", self_only}, {"mpix://SHARED", same_host_processes}};

/// Case-insensitive: programs also write mpi://world.
Result<const ProcessSet*> find_pset(const char* name) {
  const std::string wanted(name, strnlen(name, MPI_MAX_PSET_NAME_LEN));
  for (const ProcessSet& set : kProcessSets)
    if (strcasecmp(wanted.c_str(), set.name) == 0) return &set;
  return Error(Errc::arg,
               "pset_name = \"" + wanted + "\" is not a process set: MPI_Session_get_nth_pset lists them");
}

Status check_kind(const core::Errhandler& errhandler) {
  using Target = core::Errhandler::Target;
  if (errhandler.target == Target::any || errhandler.target == Target::session) return {};
  return Error(Errc::errhandler,
               "errhandler is not a session error handler: create it with MPI_Session_create_errhandler");
}

Status open(core::Instance& instance, int level, const core::Info* info, core::Errhandler& errhandler,
            MPI_Session* handle) {
  const auto lock = lock_of(instance);
  core::Ref<Session> session(Session::create(instance));
  core::Ref<core::Info> hints(core::Info::create());
  if (!session || !hints) return Error(Errc::no_mem, "no more sessions are available: finalize some");
  hints->set("thread_level", thread_level_name(level));
  hints->set("mpi_memory_alloc_kinds",
             memory_kinds(info == nullptr ? std::nullopt : info->get("mpi_memory_alloc_kinds")));
  session->info = std::move(hints);
  session->errhandler = core::Ref<core::Errhandler>::share(&errhandler);
  return_object(session.detach(), handle);
  return {};
}

}  // namespace

Status Session_init(core::Info* info, core::Errhandler& errhandler, MPI_Session* handle) {
  WEFT_TRY(check_kind(errhandler));
  const int level = thread_level(info);
  auto instance = acquire_instance(level);
  if (!instance) return std::move(instance).error();
  Status opened = open(**instance, level, info, errhandler, handle);
  if (!opened) release_instance();
  return opened;
}

Status Session_finalize(MPI_Session* handle) {
  {
    const auto lock = lock_of(*g_instance);
    Session& session = *to_session(*handle);
    p2p::forget_buffer(session.instance, &session);
    session.close_handle();
  }
  *handle = MPI_SESSION_NULL;
  release_instance();
  return {};
}

Status Session_get_info(Session& session, MPI_Info* info_used) {
  return return_new_object(core::Info::duplicate(*session.info), info_used);
}

Status Session_get_num_psets(Session&, core::Info*, int* npset_names) {
  *npset_names = static_cast<int>(std::size(kProcessSets));
  return {};
}

Status Session_get_nth_pset(Session&, core::Info*, int n, int* pset_len, char* pset_name) {
  if (n < 0 || static_cast<size_t>(n) >= std::size(kProcessSets))
    return Error(Errc::arg, "n = " + std::to_string(n) + ": there are " +
                                std::to_string(std::size(kProcessSets)) + " process sets");
  const std::string_view name = kProcessSets[n].name;
  int length = 0;
  if (*pset_len > 0) {
    if (pset_name == nullptr) return Error(Errc::arg, "pset_name is a null pointer, but pset_len is not 0");
    copy_text(name, pset_name, static_cast<size_t>(*pset_len), &length);
  }
  *pset_len = static_cast<int>(name.size()) + 1;
  return {};
}

Status Session_get_pset_info(Session& session, const char* pset_name, MPI_Info* info) {
  auto set = find_pset(pset_name);
  if (!set) return std::move(set).error();
  core::Info* made = core::Info::create();
  if (made != nullptr) made->set("mpi_size", std::to_string((*set)->members(session.instance).size()));
  return return_new_object(made, info);
}

Status Group_from_session_pset(Session& session, const char* pset_name, MPI_Group* newgroup) {
  auto set = find_pset(pset_name);
  if (!set) return std::move(set).error();
  core::Group* group = core::Group::create((*set)->members(session.instance), session.instance.self);
  if (group != nullptr) group->session = core::Ref<Session>::share(&session);
  return return_new_object(group, newgroup);
}

Status Session_set_errhandler(Session& session, core::Errhandler& errhandler) {
  WEFT_TRY(check_kind(errhandler));
  session.errhandler = core::Ref<core::Errhandler>::share(&errhandler);
  return {};
}

Status Session_get_errhandler(Session& session, MPI_Errhandler* errhandler) {
  return_shared_object(session.errhandler.get(), errhandler);
  return {};
}

Status Session_call_errhandler(Session& session, int errorcode) {
  const core::Ref<core::Errhandler> handler = session.errhandler;
  const std::string message = "called by the application with " + code_name(errorcode);
  session.instance.unlocked(
      [&] { run_handler(*handler, &session, errorcode, "MPI_Session_call_errhandler", message); });
  return {};
}

}  // namespace weft::api::impl
