// SPDX-License-Identifier: BSD-3-Clause
// Argument checks of the generated entry points. Checks are inline; errors are built out of line and name the
// argument, its value and the valid range. Setting `check` = off disables the checks; gpu
// also compares buffers (api/gpu_check.hpp), on also reports doubtful use.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <string>

#include "api/counts.hpp"
#include "api/entry_point.hpp"
#include "base/config.hpp"
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "datatype/datatype.hpp"

namespace weft::api {

WEFT_HIDDEN extern config::Choice g_check_setting;
/// Values of the setting `check`.
enum class Check { arguments, off, gpu, on };
/// Returns false if argument checks are disabled. Handles are always checked.
inline bool checking() { return g_check_setting.index() != static_cast<int>(Check::off); }
/// Returns true if valid but doubtful use of MPI is reported: extensions, objects that leak.
inline bool reporting() { return g_check_setting.index() == static_cast<int>(Check::on); }
/// Returns true if the buffers of calls are compared with themselves after queued GPU work has ended
/// (api/gpu_check.hpp).
inline bool checking_gpu() { return g_check_setting.index() >= static_cast<int>(Check::gpu); }
/// Writes a line about doubtful use of MPI to the log. Precondition: reporting().
[[gnu::cold]] void report(const std::string& message);

/// Writes what the checks have seen in this process to the log, for `weft check` (setting check.summary).
void report_summary(core::Instance& instance);

/// MPI_TAG_UB.
inline constexpr int kTagUpperBound = 0x3fffffff;

inline bool is_valid_rank(int rank, int size) {
  return static_cast<unsigned>(rank) < static_cast<unsigned>(size);
}
inline bool is_valid_tag(int tag) {
  return static_cast<unsigned>(tag) <= static_cast<unsigned>(kTagUpperBound);
}

/// Returns true if the arguments "significant only at root" are significant in this process.
inline bool has_root_arguments(const core::Communicator& comm, int root) {
  return comm.inter() ? root == MPI_ROOT : root == comm.rank();
}
/// Returns true if the non-root arguments of a rooted collective are significant in this process. On an
/// intercommunicator: the process is in the group opposite to the root.
inline bool has_nonroot_arguments(const core::Communicator& comm, int root) {
  return !comm.inter() || root >= 0;
}
/// Returns true if this process sends or receives data in a rooted collective.
inline bool participates(const core::Communicator& comm, int root) {
  return !comm.inter() || root != MPI_PROC_NULL;
}
inline bool is_valid_root(const core::Communicator& comm, int root) {
  return is_valid_rank(root, comm.remote_size()) ||
         (comm.inter() && (root == MPI_ROOT || root == MPI_PROC_NULL));
}

/// Number of sources and destinations of a neighborhood collective; 0 without a topology.
inline int indegree(const core::Communicator& comm) {
  return comm.topology == nullptr ? 0 : static_cast<int>(comm.topology->sources.size());
}
inline int outdegree(const core::Communicator& comm) {
  return comm.topology == nullptr ? 0 : static_cast<int>(comm.topology->destinations.size());
}

/// Index of the first negative value; n if there is none.
size_t find_negative(const CountArray& values, size_t n);
/// Index of the first handle that is not a live datatype, or with `committed` not a committed one; n if none.
size_t find_bad_datatype(const MPI_Datatype* handles, size_t n, bool committed);

[[gnu::cold]] Error null_pointer(const char* name);
/// Result of MPI_*_get_name for a null handle.
[[gnu::cold]] Status null_name(const char* handle, char* name, int* resultlen);
[[gnu::cold]] Error negative(Errc code, const char* name, MPI_Count value);
[[gnu::cold]] Error negative_at(Errc code, const char* name, size_t index, MPI_Count value);
[[gnu::cold]] Error bad_datatype_at(const char* name, size_t index, MPI_Datatype handle);
[[gnu::cold]] Error uncommitted(const char* name, const datatype::Datatype& type);
/// `wildcard`: MPI_ANY_SOURCE is allowed.
[[gnu::cold]] Error bad_rank(const char* name, int value, int size, bool wildcard);
[[gnu::cold]] Error bad_group_rank(const char* name, int value, int size);
[[gnu::cold]] Error bad_root(const char* name, int value, const core::Communicator& comm);
[[gnu::cold]] Error bad_tag(const char* name, int value, bool wildcard);
/// An output does not fit an int and MPI requires an error instead of MPI_UNDEFINED.
[[gnu::cold]] Error too_large(const char* name, MPI_Count value);

}  // namespace weft::api
