// SPDX-License-Identifier: BSD-3-Clause
// Handles: tables of predefined objects, registry of request slabs, Fortran integer handles, error messages.
#include "api/handles.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/caller.hpp"
#include "api/check.hpp"
#include "api/counts.hpp"
#include "api/errors.hpp"
#include "api/foreign_handle.hpp"
#include "base/assert.hpp"
#include "datatype/predefined.hpp"

namespace weft::api {

namespace {

SimpleType simple_type(const datatype::Datatype* type) {
  const auto basic = type != nullptr && type->contiguous() ? type->basic() : std::nullopt;
  if (!basic || datatype::traits_of(*basic).size != type->size()) return {};
  return {static_cast<uint8_t>(type->size()), *basic, rma::comparable(*basic)};
}

}  // namespace

HandleTables::HandleTables()
    : communicators(core::Communicator::slab()),
      groups(core::Group::slab()),
      ops_slab(core::Op::slab()),
      infos(core::Info::slab()),
      errhandlers(core::Errhandler::slab()),
      sessions(core::Session::slab()),
      transfers(p2p::Transfer::slab()),
      completed_send(&p2p::CompletedSend::shared()),
      windows(rma::Window::slab()),
      files(io::File::slab()) {
  for (uintptr_t i = 0; i < kDatatypes; ++i) {
    datatypes[i] = datatype::predefined(kDatatypeFirst + i);
    simple_types[i] = simple_type(datatypes[i]);
  }
  for (uintptr_t i = 0; i < kOps; ++i) ops[i] = core::Op::predefined(kOpFirst + i);
}

const HandleTables g_handles;

core::Errhandler* to_errhandler(MPI_Errhandler handle) {
  if (handle == MPI_ERRORS_ARE_FATAL) return core::Errhandler::fatal();
  if (handle == MPI_ERRORS_ABORT) return core::Errhandler::abort();
  if (handle == MPI_ERRORS_RETURN) return core::Errhandler::ret();
  return live(g_handles.errhandlers, handle);
}

MPI_Errhandler handle_of(const core::Errhandler& handler) {
  if (&handler == core::Errhandler::fatal()) return MPI_ERRORS_ARE_FATAL;
  if (&handler == core::Errhandler::abort()) return MPI_ERRORS_ABORT;
  if (&handler == core::Errhandler::ret()) return MPI_ERRORS_RETURN;
  return reinterpret_cast<MPI_Errhandler>(reinterpret_cast<uintptr_t>(&handler));
}

MPI_Group handle_of(const core::Group& group) {
  if (&group == core::Group::empty()) return MPI_GROUP_EMPTY;
  return reinterpret_cast<MPI_Group>(reinterpret_cast<uintptr_t>(&group));
}

MPI_Info handle_of(const core::Info& info) {
  if (&info == core::Info::environment()) return MPI_INFO_ENV;
  return reinterpret_cast<MPI_Info>(reinterpret_cast<uintptr_t>(&info));
}

datatype::Datatype& DatatypeArray::operator[](size_t i) const { return *to_datatype(handles_[i]); }

namespace {

std::vector<RequestCheck>& request_checks() {
  static std::vector<RequestCheck> checks;
  return checks;
}

struct HandleKindInfo {
  const char* noun;              ///< "a communicator"
  const char* null;              ///< name of its MPI_*_NULL
  uintptr_t first, end;          ///< ABI values of predefined handles
  const char* expected_handles;  ///< valid handles, for the error message
};

const HandleKindInfo& info_of(HandleKind kind) {
  static constexpr HandleKindInfo table[] = {
      {"a communicator", "MPI_COMM_NULL", 0x100, 0x108, "MPI_COMM_WORLD or a communicator that is not freed"},
      {"a datatype", "MPI_DATATYPE_NULL", 0x200, 0x300, "a predefined type or a type that is not freed"},
      {"an operation", "MPI_OP_NULL", 0x20, 0x40,
       "a predefined operation or an operation from MPI_Op_create"},
      {"a group", "MPI_GROUP_NULL", 0x108, 0x110, "MPI_GROUP_EMPTY or a group that is not freed"},
      {"an info object", "MPI_INFO_NULL", 0x130, 0x138, "an info object from MPI_Info_create"},
      {"an error handler", "MPI_ERRHANDLER_NULL", 0x140, 0x148,
       "MPI_ERRORS_RETURN or a handler that is not freed"},
      {"a request", "MPI_REQUEST_NULL", 0x180, 0x188, "a request that is not complete or freed"},
      {"a message", "MPI_MESSAGE_NULL", 0x128, 0x130, "a message from MPI_Mprobe that was not received"},
      {"a window", "MPI_WIN_NULL", 0x110, 0x118, "a window that is not freed"},
      {"a file", "MPI_FILE_NULL", 0x118, 0x120, "an open file"},
      {"a session", "MPI_SESSION_NULL", 0x120, 0x128, "a session from MPI_Session_init"},
  };
  return table[static_cast<int>(kind)];
}
constexpr int kHandleKindCount = 11;

/// Returns true if a handle that is not live was an object of this kind.
bool was_freed(HandleKind kind, const void* handle) {
  const auto inside = [handle](const auto& slab) { return slab.check(handle) != HandleState::foreign; };
  switch (kind) {
    case HandleKind::communicator:
      return inside(g_handles.communicators);
    case HandleKind::op:
      return inside(g_handles.ops_slab);
    case HandleKind::group:
      return inside(g_handles.groups);
    case HandleKind::info:
      return inside(g_handles.infos);
    case HandleKind::errhandler:
      return inside(g_handles.errhandlers);
    case HandleKind::session:
      return inside(g_handles.sessions);
    case HandleKind::window:
      return inside(g_handles.windows);
    case HandleKind::file:
      return inside(g_handles.files);
    case HandleKind::request:
      return inside(g_handles.transfers) || check_other_request(handle) != HandleState::foreign;
    default:
      return false;
  }
}

Errc class_for(HandleKind kind) {
  switch (kind) {
    case HandleKind::communicator:
      return Errc::comm;
    case HandleKind::datatype:
      return Errc::type;
    case HandleKind::op:
      return Errc::op;
    case HandleKind::group:
      return Errc::group;
    case HandleKind::info:
      return Errc::info;
    case HandleKind::errhandler:
      return Errc::errhandler;
    case HandleKind::request:
    case HandleKind::message:
      return Errc::request;
    case HandleKind::window:
      return Errc::window;
    case HandleKind::file:
      return Errc::file;
    case HandleKind::session:
      return Errc::session;
  }
  return Errc::arg;
}

/// The kind whose range of predefined values contains `value`; nullptr if there is none.
const HandleKindInfo* owner_of(uintptr_t value) {
  for (int kind = 0; kind < kHandleKindCount; ++kind) {
    const HandleKindInfo& candidate = info_of(static_cast<HandleKind>(kind));
    if (value >= candidate.first && value < candidate.end) return &candidate;
  }
  return nullptr;
}

Error describe(HandleKind kind, const std::string& argument, const void* handle) {
  const HandleKindInfo& wanted = info_of(kind);
  const auto value = reinterpret_cast<uintptr_t>(handle);
  const auto error = [&](const std::string& problem) {
    return Error(class_for(kind), argument + problem + ": pass " + wanted.expected_handles);
  };
  if (value == wanted.first) return error(std::string(" is ") + wanted.null);
  if (kind == HandleKind::communicator && (handle == MPI_COMM_WORLD || handle == MPI_COMM_SELF))
    return Error(Errc::comm, argument +
                                 (handle == MPI_COMM_WORLD ? " = MPI_COMM_WORLD" : " = MPI_COMM_SELF") +
                                 ", which ended with MPI_Finalize: pass a communicator from "
                                 "MPI_Comm_create_from_group");
  char text[24];
  std::snprintf(text, sizeof text, " = 0x%zx", static_cast<size_t>(value));
  const std::string value_text = text;
  if (const HandleKindInfo* other = owner_of(value); other != nullptr && other != &wanted)
    return error(value_text + " is " + other->noun + " of the ABI, not " + wanted.noun);
  if (was_freed(kind, handle)) return error(value_text + " was freed");
  if (const std::string foreign = describe_foreign_handle(value, wanted.noun); !foreign.empty()) {
    Error found(class_for(kind), argument + foreign);
    if (value == kInvalidHandle) return found;                 // it may have been freed, as by other programs
    return Error(Errc::abi, found.message(), code_of(found));  // EntryPoint::fail() reports it
  }
  return error(value_text + " is not " + wanted.noun +
               " (freed, not initialised, or from a program built with the mpi.h of another ABI)");
}

/// Numbers of handles that are pointers. Numbers start above all predefined values and fit a Fortran INTEGER.
/// An entry never changes, so reading takes no lock.
class IntegerTable {
 public:
  const void* handle(size_t index) const {
    if (index >= kChunks * kChunkEntries) return nullptr;
    const Entry* chunk = chunks_[index / kChunkEntries].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk[index % kChunkEntries].load(std::memory_order_acquire);
  }
  size_t index(const void* handle) {
    std::atomic<size_t>& last =
        cache_[reinterpret_cast<uintptr_t>(handle) / kHandleAlignment % kCacheEntries];
    size_t found = last.load(std::memory_order_relaxed);
    if (this->handle(found) == handle) return found;
    found = find_or_add(handle);
    last.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  using Entry = std::atomic<const void*>;
  static constexpr size_t kChunkEntries = 4096, kChunks = 8192, kCacheEntries = 1024, kHandleAlignment = 64;

  size_t find_or_add(const void* handle) {
    const std::lock_guard guard(lock_);
    const auto [entry, added] = indices_.try_emplace(handle, indices_.size());
    if (!added) return entry->second;
    const size_t index = entry->second;
    WEFT_ASSERT(index < kChunks * kChunkEntries);  // objects are reused: this many are never live
    Entry* chunk = chunks_[index / kChunkEntries].load(std::memory_order_relaxed);
    if (chunk == nullptr) {
      chunk = new Entry[kChunkEntries]();
      chunks_[index / kChunkEntries].store(chunk, std::memory_order_release);
    }
    chunk[index % kChunkEntries].store(handle, std::memory_order_release);
    return index;
  }

  std::mutex lock_;
  std::unordered_map<const void*, size_t> indices_;
  std::atomic<Entry*> chunks_[kChunks] = {};
  std::atomic<size_t> cache_[kCacheEntries] = {};  ///< index last used, by address
};
IntegerTable& integers() {
  static IntegerTable table;
  return table;
}

}  // namespace

void register_request_slab(RequestCheck check) {
  auto& checks = request_checks();
  if (std::find(checks.begin(), checks.end(), check) == checks.end()) checks.push_back(check);
}

HandleState check_other_request(const void* handle) {
  for (const RequestCheck check : request_checks())
    if (const HandleState state = check(handle); state != HandleState::foreign) return state;
  return HandleState::foreign;
}

Error bad_handle(HandleKind kind, const char* name, const void* handle) {
  return describe(kind, name, handle);
}

Error bad_handle_at(HandleKind kind, const char* name, size_t index, const void* handle) {
  return describe(kind, element_name(name, index), handle);
}

int handle_to_int(const void* handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  return static_cast<int>(value < kPredefinedEnd ? value : kPredefinedEnd + integers().index(handle));
}

void* handle_from_int(int number) {
  if (number < static_cast<int>(kPredefinedEnd))
    return reinterpret_cast<void*>(static_cast<uintptr_t>(number < 0 ? 0 : number));
  return const_cast<void*>(integers().handle(static_cast<size_t>(number) - kPredefinedEnd));
}

}  // namespace weft::api
