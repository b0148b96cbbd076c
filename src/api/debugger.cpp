// SPDX-License-Identifier: BSD-3-Clause
#include "api/debugger.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "core/communicator.hpp"
#include "core/group.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/message/transfer.hpp"
#include "transport/shm/shm.hpp"

// Offsets in classes with bases and virtual functions: supported by all compilers that build the library.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

extern "C" {

struct MPIR_weft_entry {
  char name[40];
  uint64_t value;
};

/// Ends with an entry without name. Empty before MPI_Init.
[[gnu::visibility("default")]] MPIR_weft_entry MPIR_weft_layout[64] = {};
/// Path of the library that reads message queues (src/debugger), beside this library. Debuggers load it.
[[gnu::visibility("default")]] char MPIR_dll_name[4096] = "libweft_msgq.so";

}  // extern "C"

namespace weft::api::debugger {
namespace {

/// The members of Slab<T>, in order, for the offsets of private ones.
struct SlabMembers {
  size_t capacity;
  struct {
    void* cells;
    size_t capacity;
  } ranges[12];
  size_t range_count;
  void* free;
  size_t used, live;
};
static_assert(sizeof(SlabMembers) == sizeof(Slab<p2p::Transfer>));

template <class T>
struct CellMembers {
  alignas(T) unsigned char storage[sizeof(T)];
  void* next;
  uint32_t live;
};

class Layout {
 public:
  template <class Value>
  void add(const char* name, Value value) {
    WEFT_ASSERT(count_ + 1 < std::size(MPIR_weft_layout));
    MPIR_weft_entry& entry = MPIR_weft_layout[count_++];
    for (size_t i = 0; i + 1 < sizeof entry.name && name[i] != 0; ++i) entry.name[i] = name[i];
    entry.value = static_cast<uint64_t>(value);
  }
  void add_address(const char* name, const void* address) { add(name, reinterpret_cast<uintptr_t>(address)); }

 private:
  size_t count_ = 0;
};

/// Distance of a base class from the start of the object.
template <class Base, class Object>
size_t offset_of_base() {
  alignas(Object) static char storage[sizeof(Object)];
  auto* object = reinterpret_cast<Object*>(storage);
  return static_cast<size_t>(reinterpret_cast<char*>(static_cast<Base*>(object)) - storage);
}

/// Set when the library is loaded, before a debugger can look.
[[gnu::constructor]] void set_dll_name() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&MPIR_weft_layout), &info) == 0 || info.dli_fname == nullptr)
    return;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  if (slash == nullptr) return;
  std::snprintf(MPIR_dll_name, sizeof MPIR_dll_name, "%.*s/libweft_msgq.so",
                static_cast<int>(slash - info.dli_fname), info.dli_fname);
}

}  // namespace

void publish(core::Instance& instance) {
  using core::Communicator;
  using p2p::Transfer;
  Layout layout;
  layout.add("version", 1);
  layout.add("self", instance.self);
  layout.add("size", instance.size);
  layout.add("slab.ranges", offsetof(SlabMembers, ranges));
  layout.add("slab.range_count", offsetof(SlabMembers, range_count));
  layout.add("slab.used", offsetof(SlabMembers, used));
  layout.add_address("communicators", &Communicator::slab());
  layout.add("communicators.stride", sizeof(CellMembers<Communicator>));
  layout.add("communicators.live", offsetof(CellMembers<Communicator>, live));
  layout.add("communicator.id", offsetof(Communicator, id));
  layout.add("communicator.group", offsetof(Communicator, group));
  layout.add("communicator.remote_group", offsetof(Communicator, remote_group));
  layout.add("communicator.name", offsetof(Communicator, name));
  layout.add("communicator.handle", offsetof(Communicator, handle));
  const auto* group = core::Group::empty();
  layout.add("group.processes",
             reinterpret_cast<const char*>(&group->processes()) - reinterpret_cast<const char*>(group));
  layout.add_address("transfers", &Transfer::slab());
  layout.add("transfers.stride", sizeof(CellMembers<Transfer>));
  layout.add("transfers.live", offsetof(CellMembers<Transfer>, live));
  layout.add("request.kind", offsetof(core::Request, kind));
  layout.add("request.persistent", offsetof(core::Request, persistent));
  layout.add("request.active", offsetof(core::Request, active));
  layout.add("request.communicator", offsetof(core::Request, comm));
  layout.add("transfer.state", offsetof(Transfer, state));
  layout.add("transfer.context", offsetof(Transfer, context));
  layout.add("transfer.rank", offsetof(Transfer, rank));
  layout.add("transfer.tag", offsetof(Transfer, tag));
  layout.add("transfer.address", offsetof(Transfer, address));
  layout.add("transfer.bytes", offsetof(Transfer, bytes));
  layout.add("transfer.transferred", offsetof(Transfer, transferred));
  layout.add("transfer.node", offset_of_base<p2p::match::Node, Transfer>());
  layout.add("message.node", offset_of_base<p2p::match::ExactNode, p2p::UnexpectedMessage>());
  layout.add("message.bytes",
             offsetof(p2p::UnexpectedMessage, completion) + offsetof(core::Completion, bytes));
  layout.add("node.next", offsetof(p2p::match::Node, next));
  layout.add("node.context", offsetof(p2p::match::Node, key) + offsetof(p2p::match::Key, context));
  layout.add("node.source", offsetof(p2p::match::Node, key) + offsetof(p2p::match::Key, source));
  layout.add("node.tag", offsetof(p2p::match::Node, key) + offsetof(p2p::match::Key, tag));
  // Both queues begin with their hash table, a vector of (first, last).
  layout.add_address("posted", &p2p::engine_of(instance).delivery.posted());
  layout.add_address("unexpected", &p2p::engine_of(instance).delivery.unexpected());
  // Waits, of which blocking sends are some. A process alone on its host has none to show.
  using wait_table::Record;
  const wait_table::Table* table =
      instance.shm != nullptr ? &instance.shm->wait_table(instance.self) : nullptr;
  layout.add_address("waits", table != nullptr ? table->records : nullptr);
  layout.add("wait.records", wait_table::kRecords);
  layout.add("wait.stride", sizeof(Record));
  layout.add("wait.seen", offsetof(Record, seen));
  layout.add("wait.what", offsetof(Record, what));
  layout.add("wait.peer", offsetof(Record, peer));
  layout.add("wait.tag", offsetof(Record, tag));
  layout.add("wait.bytes", offsetof(Record, bytes));
  layout.add("wait.context", offsetof(Record, context));
  layout.add("wait.call", offsetof(Record, call));
}

}  // namespace weft::api::debugger
