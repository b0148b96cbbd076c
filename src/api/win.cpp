// SPDX-License-Identifier: BSD-3-Clause
// Windows: constructors, queries and synchronisation (MPI 5.0 sections 12.2 and 12.5).
#include <limits>
#include <string>

#include "api/check.hpp"
#include "api/error_codes.hpp"
#include "api/errors.hpp"
#include "api/impl.hpp"
#include "api/instance.hpp"
#include "api/memory_kinds.hpp"
#include "api/now.hpp"
#include "api/objects.hpp"
#include "rma/window.hpp"
#include "stream/order/order.hpp"

namespace weft::api {

namespace impl {
namespace {

using rma::Flavor;
using rma::Window;

constexpr std::string_view kHints[] = {
    "no_locks",       "accumulate_ordering",        "accumulate_ops",         "same_size",
    "same_disp_unit", "mpi_accumulate_granularity", "alloc_shared_noncontig", "mpi_minimum_memory_alignment"};

Status check_arguments(core::Communicator& comm, MPI_Aint size, MPI_Count disp_unit) {
  if (comm.inter())
    return Error(Errc::comm, "comm is an intercommunicator: windows need an intracommunicator");
  if (size < 0) return rma::error(rma::ErrorClass::size, "size = " + std::to_string(size) + " is negative");
  if (disp_unit <= 0)
    return rma::error(rma::ErrorClass::disp, "disp_unit = " + std::to_string(disp_unit) + ": use 1 or more");
  return {};
}

/// Keeps the hints that MPI defines for windows; others are ignored, as MPI requires.
Status apply_window_hints(Window& window, const core::Info* info) {
  if (!window.info) window.info = core::Ref<core::Info>(core::Info::create());
  if (!window.info) return Error(Errc::no_mem, "no more info objects are available: free some");
  if (info == nullptr) return {};
  for (const std::string_view key : kHints)
    if (const auto value = info->get(key)) window.info->set(key, *value);
  return {};
}

Status create(core::Communicator& comm, const rma::Options& options, const core::Info* info, MPI_Win* win) {
  auto made = Window::create(comm, options);
  if (!made) return std::move(made).error();
  static constexpr std::pair<const char*, const char*> kDefaults[] = {
      {"no_locks", "false"},
      {"accumulate_ordering", "rar,raw,war,waw"},
      {"accumulate_ops", "same_op_no_op"},
      {"same_size", "false"},
      {"same_disp_unit", "false"},
      {"mpi_accumulate_granularity", "0"}};
  Window& window = **made;
  window.info = core::Ref<core::Info>(core::Info::create());
  if (window.info)
    for (const auto& [key, value] : kDefaults) window.info->set(key, value);
  return_object(&window, win);
  return apply_window_hints(window, info);
}

/// The last action of a constructor: a progress thread may run from now on, and this call holds no lock.
void serve(MPI_Win win) {
  if (to_window(win)->reached_by_messages) start_progress_thread();
}

bool is_true(const core::Info* info, std::string_view key) {
  return info != nullptr && info->get(key) == std::string_view("true");
}

}  // namespace

Status Win_create(void* base, MPI_Aint size, MPI_Count disp_unit, core::Info* info, core::Communicator& comm,
                  MPI_Win* win) {
  WEFT_TRY(check_arguments(comm, size, disp_unit));
  if (base == nullptr && size > 0)
    return rma::error(rma::ErrorClass::base, "base is null and size = " + std::to_string(size));
  WEFT_TRY(create(comm, {Flavor::create, base, static_cast<uint64_t>(size), disp_unit}, info, win));
  to_window(*win)->base = base;
  serve(*win);
  return {};
}

Status Win_allocate(MPI_Aint size, MPI_Count disp_unit, core::Info* info, core::Communicator& comm,
                    void* baseptr, MPI_Win* win) {
  WEFT_TRY(check_arguments(comm, size, disp_unit));
  rma::Options options{Flavor::allocate, nullptr, static_cast<uint64_t>(size), disp_unit};
  const auto kinds = requested_kinds(info);
  if (kinds) options.kinds = &*kinds;
  WEFT_TRY(create(comm, options, info, win));
  *static_cast<void**>(baseptr) = to_window(*win)->base;
  serve(*win);
  return {};
}

Status Win_allocate_shared(MPI_Aint size, MPI_Count disp_unit, core::Info* info, core::Communicator& comm,
                           void* baseptr, MPI_Win* win) {
  WEFT_TRY(check_arguments(comm, size, disp_unit));
  const bool contiguous = !is_true(info, "alloc_shared_noncontig");
  WEFT_TRY(
      create(comm, {Flavor::shared, nullptr, static_cast<uint64_t>(size), disp_unit, contiguous}, info, win));
  *static_cast<void**>(baseptr) = to_window(*win)->base;
  serve(*win);
  return {};
}

Status Win_create_dynamic(core::Info* info, core::Communicator& comm, MPI_Win* win) {
  WEFT_TRY(check_arguments(comm, 0, 1));
  WEFT_TRY(create(comm, {Flavor::dynamic}, info, win));
  serve(*win);
  return {};
}

Status Win_attach(Window& win, void* base, MPI_Aint size) {
  if (size < 0) return rma::error(rma::ErrorClass::size, "size = " + std::to_string(size) + " is negative");
  if (base == nullptr && size > 0) return rma::error(rma::ErrorClass::base, "base is null");
  return win.attach(base, static_cast<uint64_t>(size));
}

Status Win_detach(Window& win, const void* base) { return win.detach(base); }

Status Win_free(MPI_Win* handle) {
  Window& win = *to_window(*handle);
  // After a failure or revocation a program may be unable to end its epochs.
  if (Status idle = win.check_idle("MPI_Win_free"); !idle.ok() && win.check_failures().ok()) return idle;
  WEFT_TRY(win.attributes.clear(win.instance, &win));
  *handle = MPI_WIN_NULL;
  auto kept = core::Ref<Window>::share(&win);
  Status freed = Window::free(&win);
  if (auto* const order = stream::order::Order::of(*win.comm); freed.ok() && order != nullptr && order->freed)
    freed = order->take_error();
  g_instance->recent_windows.forget(&win);
  if (!freed.ok()) keep_error_window(std::move(kept));
  return freed;
}

Status Win_get_group(Window& win, MPI_Group* group) {
  return_shared_object(win.comm->group.get(), group);
  return {};
}

Status Win_set_name(Window& win, const char* name) {
  win.name.assign(name, strnlen(name, MPI_MAX_OBJECT_NAME - 1));
  return {};
}

Status Win_get_name(Window& win, char* name, int* resultlen) {
  copy_text(win.name, name, MPI_MAX_OBJECT_NAME, resultlen);
  return {};
}

Status Win_set_info(Window& win, core::Info* info) { return apply_window_hints(win, info); }

Status Win_get_info(Window& win, MPI_Info* info) {
  core::Info* const hints = win.info ? core::Info::duplicate(*win.info) : core::Info::create();
  if (hints != nullptr)
    hints->set("mpi_memory_alloc_kinds", win.kind.empty() ? memory_kinds(std::nullopt) : win.kind);
  return return_new_object(hints, info);
}

Status Win_shared_query(Window& win, int rank, MPI_Aint* size, MPI_Count* disp_unit, void* baseptr) {
  if (win.flavor == Flavor::dynamic)
    return rma::error(rma::ErrorClass::flavor, "a dynamic window has no memory of its own to query");
  if (rank == MPI_PROC_NULL) {  // the first rank with memory
    rank = 0;
    while (rank + 1 < win.size() && win.peers[static_cast<size_t>(rank)].size == 0) ++rank;
  }
  if (!is_valid_rank(rank, win.size())) return bad_group_rank("rank", rank, win.size());
  const rma::Peer& peer = win.peers[static_cast<size_t>(rank)];
  std::byte* address = nullptr;
  if (peer.size != 0 && peer.memory != nullptr && peer.memory->direct() != nullptr)
    address = peer.memory->direct() + peer.offset;
  *size = address == nullptr ? 0 : static_cast<MPI_Aint>(peer.size);
  *disp_unit = peer.disp_unit;
  *static_cast<void**>(baseptr) = address;
  return {};
}

Status Win_fence(int assertion, Window& win) { return win.fence(assertion); }
Status Win_post(core::Group& group, int assertion, Window& win) { return win.post(group, assertion); }
Status Win_start(core::Group& group, int assertion, Window& win) { return win.start(group, assertion); }
Status Win_complete(Window& win) { return win.complete(); }

Status Win_wait(Window& win) {
  auto ended = win.wait(true);
  return ended ? Status() : std::move(ended).error();
}

Status Win_test(Window& win, int* flag) {
  auto ended = win.wait(false);
  if (!ended) return std::move(ended).error();
  *flag = *ended ? 1 : 0;
  return {};
}

Status Win_lock(int lock_type, int rank, int assertion, Window& win) {
  if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED)
    return rma::error(rma::ErrorClass::lock_type, "lock_type = " + std::to_string(lock_type) +
                                                      ": use MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE");
  return win.lock(lock_type == MPI_LOCK_EXCLUSIVE, rank, assertion);
}

Status Win_unlock(int rank, Window& win) { return win.unlock(rank); }
Status Win_lock_all(int assertion, Window& win) { return win.lock_all(assertion); }
Status Win_unlock_all(Window& win) { return win.unlock_all(); }
Status Win_flush(int rank, Window& win) { return win.flush(rank); }
Status Win_flush_local(int rank, Window& win) { return win.flush(rank); }

// Completion at the target implies completion at the origin, and is as fast on every path but messages.
Status Win_flush_all(Window& win) {
  WEFT_TRY(win.check_passive());
  return win.flush_all();
}

Status Win_flush_local_all(Window& win) { return Win_flush_all(win); }

Status Win_sync(Window& win) {
  win.progress();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return win.check_failures();
}

}  // namespace impl
}  // namespace weft::api
