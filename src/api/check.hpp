// SPDX-License-Identifier: BSD-3-Clause
// Checks of arguments, used by the generated entry points. The tests are inline; the errors they lead to are
// made out of line and say the argument, its value and what would be right. Setting `check` = off leaves them
// out.
#pragma once
#include <mpi.h>

#include <cstddef>

#include "api/counts.hpp"
#include "api/entry.hpp"
#include "base/config.hpp"
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "datatype/datatype.hpp"

namespace weft::api {

WEFT_HIDDEN extern config::Choice g_check_setting;
/// False when the user has switched the checks off; handles are checked always.
inline bool checking() { return g_check_setting.index() == 0; }

/// MPI_TAG_UB.
inline constexpr int kTagUpperBound = 0x3fffffff;

inline bool is_rank(int rank, int size) { return static_cast<unsigned>(rank) < static_cast<unsigned>(size); }
inline bool is_tag(int tag) { return static_cast<unsigned>(tag) <= static_cast<unsigned>(kTagUpperBound); }

/// This process gives the root's arguments of a rooted collective.
inline bool at_root(const core::Communicator& comm, int root) {
  return comm.inter() ? root == MPI_ROOT : root == comm.rank();
}
/// This process gives the other arguments of a rooted collective (in an intercommunicator: it is in the group
/// that faces the root).
inline bool at_leaf(const core::Communicator& comm, int root) { return !comm.inter() || root >= 0; }
/// This process takes part with data in a rooted collective.
inline bool takes_part(const core::Communicator& comm, int root) {
  return !comm.inter() || root != MPI_PROC_NULL;
}
inline bool is_root(const core::Communicator& comm, int root) {
  return is_rank(root, comm.remote_size()) || (comm.inter() && (root == MPI_ROOT || root == MPI_PROC_NULL));
}

/// Neighbors that a neighborhood collective receives from and sends to; 0 without a topology.
inline int indegree(const core::Communicator& comm) {
  return comm.topology == nullptr ? 0 : static_cast<int>(comm.topology->sources.size());
}
inline int outdegree(const core::Communicator& comm) {
  return comm.topology == nullptr ? 0 : static_cast<int>(comm.topology->destinations.size());
}

/// Index of the first negative value, or n.
size_t find_negative(const CountArray& values, size_t n);
/// Index of the first handle that is not a live (and, if asked, committed) datatype, or n.
size_t find_bad_datatype(const MPI_Datatype* handles, size_t n, bool committed);

[[gnu::cold]] Error null_pointer(const char* name);
/// The answer of a call for the name of a null handle.
[[gnu::cold]] Status null_name(const char* handle, char* name, int* resultlen);
[[gnu::cold]] Error negative(Errc code, const char* name, MPI_Count value);
[[gnu::cold]] Error negative_at(Errc code, const char* name, size_t index, MPI_Count value);
[[gnu::cold]] Error bad_datatype_at(const char* name, size_t index, MPI_Datatype handle);
[[gnu::cold]] Error uncommitted(const char* name, const datatype::Datatype& type);
/// `wildcard`: MPI_ANY_SOURCE is allowed here.
[[gnu::cold]] Error bad_rank(const char* name, int value, int size, bool wildcard);
[[gnu::cold]] Error bad_member(const char* name, int value, int size);
[[gnu::cold]] Error bad_root(const char* name, int value, const core::Communicator& comm);
[[gnu::cold]] Error bad_tag(const char* name, int value, bool wildcard);
/// An output that an int cannot hold, where MPI asks for an error and not for MPI_UNDEFINED.
[[gnu::cold]] Error too_large(const char* name, MPI_Count value);

}  // namespace weft::api
