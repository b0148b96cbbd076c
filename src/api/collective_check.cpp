// SPDX-License-Identifier: BSD-3-Clause
#include "api/collective_check.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>
#include <vector>

#include "base/scope.hpp"
#include "coll/bootstrap/group.hpp"
#include "core/op.hpp"

namespace weft::api {
namespace {

using coll::Collective;

const config::Scopes checks_of_job{config::Scope::job, {"check"}};  // the comparison is collective

/// Arguments of one rank; -1 and "": not compared.
struct Arguments {
  int32_t what, root = -1;
  int64_t bytes = -1;
  int64_t op = -1;
  int32_t basic = -1;
  char type[36] = "";
};

Arguments arguments_of(const coll::Call& call) {
  Arguments own{.what = static_cast<int32_t>(call.what)};
  const datatype::Datatype* type = nullptr;
  switch (call.what) {
    case Collective::bcast:
      type = call.recv.type != nullptr ? call.recv.type : call.send.type;
      [[fallthrough]];
    case Collective::gather:
    case Collective::scatter:
      own.bytes = static_cast<int64_t>(call.bytes);
      [[fallthrough]];
    case Collective::gatherv:
    case Collective::scatterv:
      own.root = call.root;
      break;
    case Collective::reduce:
      own.root = call.root;
      [[fallthrough]];
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan:
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_block:
      type = call.send.type;
      if (!call.op->created()) own.op = static_cast<int64_t>(call.op->handle);
      [[fallthrough]];
    case Collective::allgather:
    case Collective::allgatherv:
    case Collective::alltoall:
      own.bytes = static_cast<int64_t>(call.bytes);
      break;
    default:
      break;
  }
  if (type == nullptr) return own;
  if (const auto basic = type->basic()) own.basic = static_cast<int32_t>(*basic);
  std::snprintf(own.type, sizeof own.type, "%s",
                type->name().empty() ? "a derived datatype" : type->name().c_str());
  return own;
}

std::string call_name(int32_t what) {
  std::string name = coll::name(static_cast<Collective>(what));
  name[0] = static_cast<char>(std::toupper(name[0]));
  return "MPI_" + name;
}

/// "rank 0 passes A, rank 3 passes B".
std::string differ(const char* subject, const std::string& first, int rank, const std::string& other) {
  return std::string("WEFT_CHECK: ") + subject + " differ: rank 0 passes " + first + ", rank " +
         std::to_string(rank) + " passes " + other;
}

Status compare(const Arguments& first, const Arguments& other, int rank) {
  if (first.what != other.what)
    return Error(Errc::arg, "WEFT_CHECK: the collectives differ: rank 0 calls " + call_name(first.what) +
                                ", rank " + std::to_string(rank) + " calls " + call_name(other.what) +
                                ": make the same collective calls in the same order on all ranks");
  if (first.root != other.root)
    return Error(Errc::root,
                 differ("the roots", std::to_string(first.root), rank, std::to_string(other.root)) +
                     ": pass the same root on all ranks");
  if (first.op != other.op && first.op >= 0 && other.op >= 0)
    return Error(Errc::op,
                 differ("the operations", core::Op::predefined(static_cast<uintptr_t>(first.op))->name, rank,
                        core::Op::predefined(static_cast<uintptr_t>(other.op))->name) +
                     ": pass the same operation on all ranks");
  if (first.bytes != other.bytes)
    return Error(Errc::truncate, differ("the sizes", std::to_string(first.bytes) + " bytes", rank,
                                        std::to_string(other.bytes) + " bytes") +
                                     ": make counts and datatypes agree on all ranks");
  if (first.basic != other.basic && first.basic >= 0 && other.basic >= 0)
    return Error(Errc::type, differ("the datatypes", first.type, rank, other.type) +
                                 ": make the datatypes agree on all ranks");
  return {};
}

}  // namespace

Status compare_collective(const coll::Call& call) {
  if (call.inter() || call.size == 1) return {};
  std::vector<Arguments> all(static_cast<size_t>(call.size), Arguments{.what = 0});
  all[static_cast<size_t>(call.rank)] = arguments_of(call);
  const coll::BootstrapGroup group(*call.comm, call.comm->next_collective_tag());
  WEFT_TRY(group.allgather(all.data(), sizeof(Arguments)));
  for (int rank = 1; rank < call.size; ++rank)
    WEFT_TRY(compare(all[0], all[static_cast<size_t>(rank)], rank));
  return {};
}

}  // namespace weft::api
