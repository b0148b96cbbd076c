// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations in GPU streams, notifications and the handle for kernels: functions of weft.h.
#include <mpi.h>
#include <weft.h>

#include <string>

#include "api/check.hpp"
#include "api/data_check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "api/ordered.hpp"
#include "rma/window.hpp"

namespace weft::api {
namespace {

using datatype::Datatype;
using rma::Area;
using rma::Window;

/// Buffer arguments of an operation, unresolved.
struct Arguments {
  const void* origin_addr;
  MPI_Count origin_count;
  MPI_Datatype origin_datatype;
  int target_rank;
  MPI_Aint target_disp;
  MPI_Count target_count;
  MPI_Datatype target_datatype;
  MPI_Win win;
};

Result<Datatype*> checked_type(const char* name, MPI_Datatype handle, const char* count_name,
                               MPI_Count count) {
  Datatype* const type = to_datatype(handle);
  if (type == nullptr) return bad_handle(HandleKind::datatype, name, handle);
  if (count < 0) return negative(Errc::count, count_name, count);
  if (!type->committed()) return uncommitted(name, *type);
  return type;
}

/// Resolves a window and runs `body(window)`.
template <class Body>
int with_window(const char* call, MPI_Win win, Body&& body) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    Window* const window = to_window(win);
    if (window == nullptr) return entry.fail(bad_handle(HandleKind::window, "win", win));
    entry.set_error_owner(*window);
    return entry.finish(body(*window));
  });
}

/// Resolves and checks the arguments and runs `body(window, origin, area)`.
template <class Body>
int operate(const char* call, const Arguments& a, Body&& body) {
  return with_window(call, a.win, [&](Window& window) -> Status {
    auto origin_type = checked_type("origin_datatype", a.origin_datatype, "origin_count", a.origin_count);
    if (!origin_type) return std::move(origin_type).error();
    auto target_type = checked_type("target_datatype", a.target_datatype, "target_count", a.target_count);
    if (!target_type) return std::move(target_type).error();
    if (!valid_data(a.origin_addr, a.origin_count, **origin_type))
      return bad_data("origin_addr", "origin_count", a.origin_count, **origin_type);
    return body(window, p2p::buffer_of(a.origin_addr, a.origin_count, **origin_type),
                Area{a.target_rank, a.target_disp, a.target_count, **target_type});
  });
}

/// Enqueues `function(window, origin, area)`, which the host executes.
template <class Function>
Status run_by_host(const char* call, Window& window, const p2p::Buffer& origin, const Area& area,
                   Function function) {
  Datatype& origin_type = const_cast<Datatype&>(*origin.type);
  Datatype& target_type = const_cast<Datatype&>(area.type);
  return ordered::run(
      {*window.comm, call, {origin.address}, {&origin_type, &target_type}},
      [=, rank = area.rank, disp = area.disp, count = area.count, kept = ordered::keep(window),
       origin_kept = ordered::keep(origin_type), target_kept = ordered::keep(target_type)]() -> Status {
        return function(*kept, origin, Area{rank, disp, count, *target_kept});
      });
}
bool by_host(const Window& window) { return ordered::enqueues_extensions(*window.comm); }

Status put_in_stream(const char* call, Window& window, const p2p::Buffer& origin, const Area& area) {
  if (!by_host(window)) return window.put_enqueue(origin, area);
  return run_by_host(call, window, origin, area, [](Window& on, const p2p::Buffer& from, const Area& to) {
    return on.put(from, to, nullptr);
  });
}
Status get_in_stream(const char* call, Window& window, const p2p::Buffer& origin, const Area& area) {
  if (!by_host(window)) return window.get_enqueue(origin, area);
  return run_by_host(call, window, origin, area, [](Window& on, const p2p::Buffer& to, const Area& from) {
    return on.get(to, from, nullptr);
  });
}

}  // namespace
}  // namespace weft::api

using namespace weft::api;  // for the entry points below
using weft::Errc;
using weft::Error;
using weft::Status;
using weft::p2p::Buffer;
using weft::rma::Area;
using weft::rma::Window;

extern "C" {

// clang-format off
#define WEFT_OPERATION_PARAMETERS(Qualifier, Count)                                                          \
  Qualifier void* origin_addr, Count origin_count, MPI_Datatype origin_datatype, int target_rank,            \
      MPI_Aint target_disp, Count target_count, MPI_Datatype target_datatype
#define WEFT_OPERATION_ARGUMENTS                                                                             \
  {origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype, win}
// clang-format on

/// An operation without further arguments than win, or with a notification.
#define WEFT_OPERATION(name, Qualifier, suffix, Count, function)                                   \
  WEFT_EXPORT int PMPIX_##name##suffix(WEFT_OPERATION_PARAMETERS(Qualifier, Count), MPI_Win win) { \
    return operate("MPIX_" #name #suffix, WEFT_OPERATION_ARGUMENTS,                                \
                   [](Window& window, const Buffer& origin, const Area& area) {                    \
                     return function("MPIX_" #name #suffix, window, origin, area);                 \
                   });                                                                             \
  }                                                                                                \
  WEFT_ALIAS(MPIX_##name##suffix, (WEFT_OPERATION_PARAMETERS(Qualifier, Count), MPI_Win win))
#define WEFT_NOTIFIED_OPERATION(name, Qualifier, suffix, Count, method)                          \
  WEFT_EXPORT int PMPIX_##name##suffix(WEFT_OPERATION_PARAMETERS(Qualifier, Count), MPI_Win win, \
                                       int notification_idx) {                                   \
    return operate("MPIX_" #name #suffix, WEFT_OPERATION_ARGUMENTS,                              \
                   [&](Window& window, const Buffer& origin, const Area& area) {                 \
                     return window.method(origin, area, notification_idx);                       \
                   });                                                                           \
  }                                                                                              \
  WEFT_ALIAS(MPIX_##name##suffix,                                                                \
             (WEFT_OPERATION_PARAMETERS(Qualifier, Count), MPI_Win win, int notification_idx))
#define WEFT_ALL_OPERATIONS(suffix, Count)                                                                 \
  WEFT_OPERATION(Put_enqueue, const, suffix, Count, put_in_stream);                                        \
  WEFT_OPERATION(Get_enqueue, , suffix, Count, get_in_stream);                                             \
  WEFT_NOTIFIED_OPERATION(Put_notify, const, suffix, Count, put_notify);                                   \
  WEFT_NOTIFIED_OPERATION(Get_notify, , suffix, Count, get_notify);                                        \
  WEFT_NOTIFIED_OPERATION(Put_notify_enqueue, const, suffix, Count, put_notify_enqueue);                   \
  WEFT_EXPORT int PMPIX_Accumulate_enqueue##suffix(WEFT_OPERATION_PARAMETERS(const, Count), MPI_Op op,     \
                                                   MPI_Win win) {                                          \
    return operate("MPIX_Accumulate_enqueue" #suffix, WEFT_OPERATION_ARGUMENTS,                            \
                   [&](Window& window, const Buffer& origin, const Area& area) -> Status {                 \
                     const weft::core::Op* const found = to_op(op);                                        \
                     if (found == nullptr) return bad_handle(HandleKind::op, "op", op);                    \
                     if (!by_host(window)) return window.accumulate_enqueue(origin, area, *found);         \
                     return run_by_host("MPIX_Accumulate_enqueue" #suffix, window, origin, area,           \
                                        [kept = ordered::keep(*to_op(op))](Window& on, const Buffer& from, \
                                                                           const Area& to) {               \
                                          return on.accumulate(from, nullptr, to, *kept, nullptr);         \
                                        });                                                                \
                   });                                                                                     \
  }                                                                                                        \
  WEFT_ALIAS(MPIX_Accumulate_enqueue##suffix,                                                              \
             (WEFT_OPERATION_PARAMETERS(const, Count), MPI_Op op, MPI_Win win))
WEFT_ALL_OPERATIONS(, int);
WEFT_ALL_OPERATIONS(_c, MPI_Count);

WEFT_EXPORT int PMPIX_Win_flush_enqueue(int rank, MPI_Win win) {
  return with_window("MPIX_Win_flush_enqueue", win, [&](Window& window) -> Status {
    if (!by_host(window)) return window.flush_enqueue(rank);
    return weft::api::ordered::run({*window.comm, "MPIX_Win_flush_enqueue", {}},
                                   [rank, on = weft::api::ordered::keep(window)] { return on->flush(rank); });
  });
}
WEFT_ALIAS(MPIX_Win_flush_enqueue, (int rank, MPI_Win win));

WEFT_EXPORT int PMPIX_Win_fence_enqueue(int assert, MPI_Win win) {
  return with_window("MPIX_Win_fence_enqueue", win, [&](Window& window) -> Status {
    if (!by_host(window)) return window.fence_enqueue(assert);
    return weft::api::ordered::run(
        {*window.comm, "MPIX_Win_fence_enqueue", {}},
        [assert, on = weft::api::ordered::keep(window)] { return on->fence(assert); });
  });
}
WEFT_ALIAS(MPIX_Win_fence_enqueue, (int assert, MPI_Win win));

WEFT_EXPORT int PMPIX_Win_wait_notify_enqueue(MPI_Win win, int notification_idx, MPI_Count value) {
  return with_window("MPIX_Win_wait_notify_enqueue", win,
                     [&](Window& window) { return window.wait_notify_enqueue(notification_idx, value); });
}
WEFT_ALIAS(MPIX_Win_wait_notify_enqueue, (MPI_Win win, int notification_idx, MPI_Count value));

WEFT_EXPORT int PMPIX_Win_create_notify(MPI_Win win, int notification_num) {
  return with_window("MPIX_Win_create_notify", win,
                     [&](Window& window) { return window.create_notify(notification_num); });
}
WEFT_ALIAS(MPIX_Win_create_notify, (MPI_Win win, int notification_num));

WEFT_EXPORT int PMPIX_Win_free_notify(MPI_Win win) {
  return with_window("MPIX_Win_free_notify", win, [](Window& window) { return window.free_notify(); });
}
WEFT_ALIAS(MPIX_Win_free_notify, (MPI_Win win));

WEFT_EXPORT int PMPIX_Win_get_notify(MPI_Win win, int notification_idx, MPI_Count* value) {
  return with_window("MPIX_Win_get_notify", win, [&](Window& window) -> Status {
    if (value == nullptr) return null_pointer("value");
    WEFT_TRY(window.check_notification(window.comm->rank(), notification_idx));
    window.progress();
    auto found = window.counters->read(static_cast<uint32_t>(notification_idx));
    if (!found) return std::move(found).error();
    *value = static_cast<MPI_Count>(*found);
    return {};
  });
}
WEFT_ALIAS(MPIX_Win_get_notify, (MPI_Win win, int notification_idx, MPI_Count* value));

WEFT_EXPORT int PMPIX_Win_set_notify(MPI_Win win, int notification_idx, MPI_Count value) {
  return with_window("MPIX_Win_set_notify", win, [&](Window& window) -> Status {
    WEFT_TRY(window.check_notification(window.comm->rank(), notification_idx));
    if (value < 0) return negative(Errc::arg, "value", value);
    return window.counters->write(static_cast<uint32_t>(notification_idx), static_cast<uint64_t>(value));
  });
}
WEFT_ALIAS(MPIX_Win_set_notify, (MPI_Win win, int notification_idx, MPI_Count value));

WEFT_EXPORT int PMPIX_Win_wait_notify(MPI_Win win, int notification_idx, MPI_Count value) {
  return with_window("MPIX_Win_wait_notify", win, [&](Window& window) -> Status {
    auto done = window.wait_notify(notification_idx, value, true);
    return done ? Status() : Status(std::move(done).error());
  });
}
WEFT_ALIAS(MPIX_Win_wait_notify, (MPI_Win win, int notification_idx, MPI_Count value));

WEFT_EXPORT int PMPIX_Win_test_notify(MPI_Win win, int notification_idx, MPI_Count value, int* flag) {
  return with_window("MPIX_Win_test_notify", win, [&](Window& window) -> Status {
    if (flag == nullptr) return null_pointer("flag");
    auto done = window.wait_notify(notification_idx, value, false);
    if (!done) return std::move(done).error();
    *flag = *done ? 1 : 0;
    return {};
  });
}
WEFT_ALIAS(MPIX_Win_test_notify, (MPI_Win win, int notification_idx, MPI_Count value, int* flag));

WEFT_EXPORT int PMPIX_Win_device_handle(MPI_Win win, void** handle) {
  return with_window("MPIX_Win_device_handle", win, [&](Window& window) -> Status {
    if (handle == nullptr) return null_pointer("handle");
    auto made = window.device_handle();
    if (!made) return std::move(made).error();
    *handle = *made;
    return {};
  });
}
WEFT_ALIAS(MPIX_Win_device_handle, (MPI_Win win, void** handle));

WEFT_EXPORT int PMPIX_Win_device_status(MPI_Win win, int* errorclass, int* rank, int* notification_idx) {
  return with_window("MPIX_Win_device_status", win, [&](Window& window) -> Status {
    if (errorclass == nullptr) return null_pointer("errorclass");
    const weft::rma::DeviceStatus found = window.take_device_status();
    *errorclass = found.error_class == 0 ? MPI_SUCCESS : found.error_class;
    if (rank != nullptr) *rank = found.rank;
    if (notification_idx != nullptr) *notification_idx = found.notification;
    return {};
  });
}
WEFT_ALIAS(MPIX_Win_device_status, (MPI_Win win, int* errorclass, int* rank, int* notification_idx));

}  // extern "C"
