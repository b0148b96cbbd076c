// SPDX-License-Identifier: BSD-3-Clause
// now: the common case of MPI functions, which their entry points try first, without EntryPoint. Each
// returns kUncommon, without any effect, if the case is not common or an argument is wrong: the general
// entry point checks everything again. Otherwise it returns the result of the call. `call`: the name of the
// function. Throws std::bad_alloc if an allocation fails, which the entry point reports.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <utility>

#include "api/check.hpp"
#include "api/entry_point.hpp"
#include "api/handles.hpp"
#include "api/status.hpp"
#include "base/trace.hpp"
#include "core/waits.hpp"
#include "device/memory.hpp"
#include "p2p/p2p.hpp"
#include "rma/now.hpp"

namespace weft::api::now {

inline constexpr int kUncommon = -1;  ///< not an error code of MPI
inline int common(bool done) { return done ? MPI_SUCCESS : kUncommon; }

/// Whether MPI is running, one thread calls it, and nothing records the calls.
inline bool possible() {
  return g_state.load(std::memory_order_relaxed) == State::running && !g_instance->threaded &&
         !trace::enabled();
}

/// The window of a handle that a general entry point has found valid; null: not one of the last.
inline rma::Window* recent_window(MPI_Win handle) {
  return g_instance->recent_windows.contains(handle) ? reinterpret_cast<rma::Window*>(handle) : nullptr;
}

/// The type of a handle; SimpleType::bytes is 0 if it is not simple.
inline SimpleType simple_type(MPI_Datatype handle) {
  const uintptr_t index = value_of(handle) - kDatatypeFirst;
  return index < kDatatypes ? g_handles.simple_types[index] : SimpleType{};
}

/// Size of a buffer with `count` elements; 0 if there are none or too many.
inline uint64_t bytes_of(const void* address, MPI_Count count, const SimpleType& type) {
  constexpr uint64_t kMaxCount = uint64_t{1} << 40;
  const auto n = static_cast<uint64_t>(count);
  return address != nullptr && n < kMaxCount ? n * type.bytes : 0;
}

/// A communicator that has a handle; null: not a common case.
inline core::Communicator* recent_communicator(MPI_Comm handle) {
  if (handle == MPI_COMM_WORLD) return g_instance->world.get();
  if (g_handles.communicators.check(handle) != HandleState::live) return nullptr;
  auto* const comm = reinterpret_cast<core::Communicator*>(handle);
  return comm->has_handle ? comm : nullptr;
}

/// A send or receive of elements of a simple type.
struct Message {
  [[gnu::always_inline]] Message(const void* address, MPI_Count n, MPI_Datatype handle, int peer,
                                 int message_tag, MPI_Comm comm_handle)
      : bytes(bytes_of(address, n, simple_type(handle))), rank(peer), tag(message_tag) {
    if (!possible() || bytes == 0 || !is_valid_tag(tag)) [[unlikely]]
      return;
    core::Communicator* const found = recent_communicator(comm_handle);
    if (found == nullptr || !is_valid_rank(rank, found->remote_size())) [[unlikely]]
      return;
    comm = found;
    buffer = p2p::buffer_of(address, n, *to_datatype(handle));
  }
  /// Sends the message if it is small host memory.
  [[nodiscard]] bool send() const {
    return device::host_without_query(buffer.address) &&
           p2p::send_now(buffer.address, bytes, rank, tag, *comm);
  }
  void post(p2p::Transfer& transfer) const {
    p2p::post_contiguous(transfer, buffer, bytes, rank, tag, *comm);
  }
  /// Starts a nonblocking call.
  [[nodiscard]] int start(core::Request::Kind kind, MPI_Request* request) const {
    p2p::Transfer* const transfer = p2p::create_transfer(kind);
    if (transfer == nullptr) [[unlikely]]
      return kUncommon;
    *request = handle_of(*transfer);
    post(*transfer);
    return MPI_SUCCESS;
  }
  void run(p2p::Transfer& transfer) const {
    post(transfer);
    core::wait(*g_instance, transfer);
  }
  /// Returns the result of a blocking call.
  [[nodiscard]] int result(const char* call, p2p::Transfer& transfer) const {
    if (transfer.outcome.ok()) [[likely]]
      return MPI_SUCCESS;
    return fail(call, *comm, std::move(transfer.outcome).error());
  }
  const uint64_t bytes;
  const int rank, tag;
  core::Communicator* comm = nullptr;  ///< null: not a common case
  p2p::Buffer buffer;
};

inline int Send(const char* call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                MPI_Comm comm) {
  const Message message(buf, count, datatype, dest, tag, comm);
  if (message.comm == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call, message.comm);
  if (message.send()) [[likely]]
    return MPI_SUCCESS;
  p2p::Transfer transfer(core::Request::Kind::send);
  message.run(transfer);
  return message.result(call, transfer);
}

inline int Recv(const char* call, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                MPI_Comm comm, MPI_Status* status) {
  const Message message(buf, count, datatype, source, tag, comm);
  if (message.comm == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call, message.comm);
  p2p::Transfer transfer(core::Request::Kind::receive);
  message.run(transfer);
  fill(status, transfer.completion);
  return message.result(call, transfer);
}

inline int Isend(const char* call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                 MPI_Comm comm, MPI_Request* request) {
  const Message message(buf, count, datatype, dest, tag, comm);
  if (message.comm == nullptr || request == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call, message.comm);
  if (!message.send()) return message.start(core::Request::Kind::send, request);
  *request = handle_of(*g_handles.completed_send);
  return MPI_SUCCESS;
}

inline int Irecv(const char* call, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                 MPI_Comm comm, MPI_Request* request) {
  const Message message(buf, count, datatype, source, tag, comm);
  if (message.comm == nullptr || request == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call, message.comm);
  return message.start(core::Request::Kind::receive, request);
}

/// An operation whose origin and target have the same simple type.
struct Operation {
  [[gnu::always_inline]] Operation(const void* origin, MPI_Count origin_count, MPI_Datatype origin_datatype,
                                   int rank, MPI_Aint disp, MPI_Count target_count,
                                   MPI_Datatype target_datatype, MPI_Win win) {
    if (!possible() || origin_count != target_count || origin_datatype != target_datatype) [[unlikely]]
      return;
    type = simple_type(origin_datatype);
    bytes = bytes_of(origin, origin_count, type);
    if (bytes == 0 || !device::host_without_query(origin)) [[unlikely]]
      return;
    window = recent_window(win);
    if (window != nullptr) [[likely]]
      target = window->accessible(rank, disp, bytes);
  }
  SimpleType type;
  uint64_t bytes = 0;
  rma::Window* window = nullptr;
  std::byte* target = nullptr;  ///< null: not a common case
};

inline int Put(const char* call, const void* origin_addr, MPI_Count origin_count,
               MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp, MPI_Count target_count,
               MPI_Datatype target_datatype, MPI_Win win) {
  const Operation put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                      target_datatype, win);
  if (put.target == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  put.window->put_now(put.target, origin_addr, put.bytes);
  return MPI_SUCCESS;
}

inline int Get(const char* call, void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
               int target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype,
               MPI_Win win) {
  const Operation get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                      target_datatype, win);
  if (get.target == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  get.window->get_now(get.target, origin_addr, get.bytes);
  return MPI_SUCCESS;
}

/// Accumulate, and with `result` MPI_Fetch_and_op. `rank`: of the target.
[[gnu::always_inline]] inline int accumulate(const char* call, const Operation& update, const void* origin,
                                             void* result, MPI_Count count, int rank, MPI_Op op) {
  const uintptr_t index = value_of(op) - kOpFirst;
  if (update.target == nullptr || index >= kStandardOps || g_handles.ops[index] == nullptr) [[unlikely]]
    return kUncommon;
  const datatype::ReduceOp kind = g_handles.ops[index]->kind;
  const datatype::ReduceFn function = datatype::reduce_function(kind, update.type.basic);
  if (function == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  return common(update.window->accumulate_now(rank, update.target, origin, result, kind, function,
                                              static_cast<uint64_t>(count), update.bytes));
}

inline int Accumulate(const char* call, const void* origin_addr, MPI_Count origin_count,
                      MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                      MPI_Count target_count, MPI_Datatype target_datatype, MPI_Op op, MPI_Win win) {
  const Operation update(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                         target_datatype, win);
  return accumulate(call, update, origin_addr, nullptr, origin_count, target_rank, op);
}

inline int Fetch_and_op(const char* call, const void* origin_addr, void* result_addr, MPI_Datatype datatype,
                        int target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win) {
  const Operation update(origin_addr, 1, datatype, target_rank, target_disp, 1, datatype, win);
  if (result_addr == nullptr || !device::host_without_query(result_addr)) [[unlikely]]
    return kUncommon;
  return accumulate(call, update, origin_addr, result_addr, 1, target_rank, op);
}

inline int Compare_and_swap(const char* call, const void* origin_addr, const void* compare_addr,
                            void* result_addr, MPI_Datatype datatype, int target_rank, MPI_Aint target_disp,
                            MPI_Win win) {
  const Operation swap(origin_addr, 1, datatype, target_rank, target_disp, 1, datatype, win);
  if (swap.target == nullptr || !swap.type.comparable || compare_addr == nullptr || result_addr == nullptr ||
      !device::host_without_query(compare_addr) || !device::host_without_query(result_addr)) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  return common(swap.window->compare_and_swap_now(target_rank, swap.target, origin_addr, compare_addr,
                                                  result_addr, swap.bytes));
}

/// The window of a synchronisation; null: not a common case.
inline rma::Window* window_of(MPI_Win win) {
  if (!possible()) [[unlikely]]
    return nullptr;
  return recent_window(win);
}

inline int Win_flush(const char* call, int rank, MPI_Win win) {
  rma::Window* const window = window_of(win);
  if (window == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  return common(window->flush_now(rank));
}

inline int Win_flush_local(const char* call, int rank, MPI_Win win) { return Win_flush(call, rank, win); }

inline int Win_lock(const char* call, int lock_type, int rank, int assertion, MPI_Win win) {
  rma::Window* const window = window_of(win);
  if (window == nullptr || assertion != 0 ||
      (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED)) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  return common(window->lock_now(lock_type == MPI_LOCK_EXCLUSIVE, rank));
}

inline int Win_unlock(const char* call, int rank, MPI_Win win) {
  rma::Window* const window = window_of(win);
  if (window == nullptr) [[unlikely]]
    return kUncommon;
  const core::PublishedCall published(g_instance->waits, call);
  return common(window->unlock_now(rank));
}

}  // namespace weft::api::now
