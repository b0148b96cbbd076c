// SPDX-License-Identifier: BSD-3-Clause
// The names, types and values are those of the interface. This file is compiled with debugging information,
// in which tools look for them.
#include "mpiexec/mpir.hpp"

#include <utility>

#include "mpiexec/hosts.hpp"

#define WEFT_MPIR [[gnu::used, gnu::visibility("default")]]

extern "C" {

struct MPIR_PROCDESC {
  const char* host_name;
  const char* executable_name;
  int pid;
};

enum : int { MPIR_NULL = 0, MPIR_DEBUG_SPAWNED = 1, MPIR_DEBUG_ABORTING = 2 };

WEFT_MPIR MPIR_PROCDESC* MPIR_proctable = nullptr;
WEFT_MPIR int MPIR_proctable_size = 0;
WEFT_MPIR const char* MPIR_debug_abort_string = nullptr;
WEFT_MPIR volatile int MPIR_debug_state = MPIR_NULL;
WEFT_MPIR volatile int MPIR_being_debugged = 0;  // written by tools
// Only their presence counts: mpiexec starts the job and is no rank; ranks that no tool attaches to need no
// release.
WEFT_MPIR int MPIR_i_am_starter = 1;
WEFT_MPIR int MPIR_partial_attach_ok = 1;
// By entry of MPIR_proctable, not part of the interface: number of the job (0: the first), rank in its
// MPI_COMM_WORLD.
WEFT_MPIR const int* weft_proctable_jobs = nullptr;
WEFT_MPIR const int* weft_proctable_ranks = nullptr;

/// Tools set a breakpoint here.
WEFT_MPIR [[gnu::noinline]] void MPIR_Breakpoint() { asm volatile("" ::: "memory"); }

}  // extern "C"

namespace weft::mpiexec {

void publish_processes(std::vector<PublishedProcess> processes) {
  static std::vector<PublishedProcess> published;  // the table has pointers to its texts
  static std::vector<MPIR_PROCDESC> table;
  static std::vector<int> jobs, ranks;
  static const std::string host = host_name();
  MPIR_proctable_size = 0;  // a tool may attach at any time
  published = std::move(processes);
  table.clear(), jobs.clear(), ranks.clear();
  for (const PublishedProcess& one : published) {
    table.push_back({host.c_str(), one.program.c_str(), one.pid});
    jobs.push_back(one.job);
    ranks.push_back(one.rank);
  }
  MPIR_proctable = table.data();
  weft_proctable_jobs = jobs.data();
  weft_proctable_ranks = ranks.data();
  MPIR_proctable_size = static_cast<int>(table.size());
  MPIR_debug_state = MPIR_DEBUG_SPAWNED;
  MPIR_Breakpoint();
}

void publish_abort(const std::string& reason) {
  static std::string text;
  text = reason;
  MPIR_debug_abort_string = text.c_str();
  MPIR_debug_state = MPIR_DEBUG_ABORTING;
  MPIR_Breakpoint();
}

}  // namespace weft::mpiexec
