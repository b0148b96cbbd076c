// SPDX-License-Identifier: BSD-3-Clause
// Each thread has a cache of its own, with one slot for each hash value: a hit takes no lock and no atomic
// operation.
#include "fortran/type_cache.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace weft::fortran {

namespace {

struct Slot {
  int users = 0;      ///< calls that are under way: a callback may call MPI, too
  bool full = false;  ///< the members below are valid
  Descriptor section = {};
  MPI_Count count = 0;
  MPI_Datatype type = nullptr, made = nullptr;
};
struct Cache {
  Slot slots[16];
  bool has_thread = false;
};
/// The caches of all threads. A cache whose thread has ended goes to the next new thread.
struct Caches {
  std::mutex lock;
  std::vector<std::unique_ptr<Cache>> all;
  enum { unused, open, closed } state = unused;
};
Caches& caches() {
  static auto* const made = new Caches;  // never destroyed: static destructors may call MPI
  return *made;
}
[[gnu::tls_model("initial-exec")]] thread_local Cache* own_cache = nullptr;
struct ThreadEnd {
  Cache* cache = nullptr;
  ~ThreadEnd() {
    const std::lock_guard guard(caches().lock);
    if (cache != nullptr) cache->has_thread = false;
  }
};

bool is_predefined(MPI_Datatype type) { return reinterpret_cast<uintptr_t>(type) < kPredefinedEnd; }

Slot& slot_of(Cache& cache, const Descriptor& section, MPI_Count count, MPI_Datatype type) {
  // Sections that a program uses by turns differ in extent, stride or count. No multiplication: a hit takes
  // few ns.
  auto hash = static_cast<size_t>(count) + (reinterpret_cast<uintptr_t>(type) >> 3) + section.element_bytes;
  for (int i = 0; i < section.rank; ++i) {
    const Dimension& dimension = section.dimensions[i];
    hash +=
        static_cast<size_t>(dimension.extent) + (static_cast<size_t>(dimension.stride) >> 2) + (hash << 2);
  }
  hash ^= hash >> 4 ^ hash >> 8;
  return cache.slots[hash % std::size(cache.slots)];
}

/// Compares sections but for their addresses.
bool same(const Descriptor& a, const Descriptor& b) {
  if (a.element_bytes != b.element_bytes || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dimensions[i].extent != b.dimensions[i].extent || a.dimensions[i].stride != b.dimensions[i].stride)
      return false;
  return true;
}

/// Attribute of MPI_COMM_SELF, which MPI_Finalize deletes before all else (MPI 5.0 section 11.2.4).
int close_cache(MPI_Comm, int, void*, void*) {
  std::vector<UsedType> freed;
  const std::lock_guard guard(caches().lock);
  caches().state = Caches::closed;
  for (const auto& cache : caches().all)
    for (Slot& slot : cache->slots)
      if (slot.users == 0 && std::exchange(slot.full, false)) freed.emplace_back(slot.made);
  return MPI_SUCCESS;
}

/// Registers the end of the cache. Programs without the world model have none.
bool register_end() {
  int initialized = 0, finalized = 0, keyval = MPI_KEYVAL_INVALID;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) return false;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_cache, &keyval, nullptr) != MPI_SUCCESS)
    return false;
  const bool set = PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr) == MPI_SUCCESS;
  PMPI_Comm_free_keyval(&keyval);
  return set;
}
bool is_closed() {
  const std::lock_guard guard(caches().lock);
  return caches().state == Caches::closed;
}
/// Gives this thread a cache. Returns false if MPI_Finalize would not end it.
bool make_cache() {
  static thread_local ThreadEnd end;
  const std::lock_guard guard(caches().lock);
  if (caches().state == Caches::unused) caches().state = register_end() ? Caches::open : Caches::closed;
  if (caches().state == Caches::closed) return false;
  auto& all = caches().all;
  auto unused = std::ranges::find_if(all, [](const auto& cache) { return !cache->has_thread; });
  if (unused == all.end()) unused = all.insert(all.end(), std::make_unique<Cache>());
  own_cache = end.cache = unused->get();
  own_cache->has_thread = true;
  return true;
}

}  // namespace

UsedType find_type(const Descriptor& section, MPI_Count count, MPI_Datatype type) {
  if (own_cache == nullptr || !is_predefined(type)) return {};
  Slot& slot = slot_of(*own_cache, section, count, type);
  if (!slot.full || slot.type != type || slot.count != count || !same(slot.section, section)) return {};
  ++slot.users;
  return UsedType(slot.made, &slot.users);
}

UsedType keep_type(const Descriptor& section, MPI_Count count, MPI_Datatype type, UsedType made) {
  if (!is_predefined(type) || (own_cache == nullptr && !make_cache())) return made;
  Slot& slot = slot_of(*own_cache, section, count, type);
  if (slot.users > 0 || is_closed()) return made;
  const UsedType replaced(slot.full ? slot.made : MPI_DATATYPE_NULL);  // freed at the return
  slot.users = 1;
  slot.full = true;
  slot.section.element_bytes = section.element_bytes;
  slot.section.rank = section.rank;  // a descriptor has as many dimensions in memory
  std::copy_n(section.dimensions, section.rank, slot.section.dimensions);
  slot.count = count;
  slot.type = type;
  slot.made = std::exchange(made.handle, MPI_DATATYPE_NULL);
  return UsedType(slot.made, &slot.users);
}

}  // namespace weft::fortran
