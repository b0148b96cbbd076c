// SPDX-License-Identifier: BSD-3-Clause
#include "api/fortran/type_cache.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace weft::fortran {

namespace {

struct Entry {
  Shape shape;
  MPI_Count count;
  MPI_Datatype type;
  SharedType made;
};

struct Cache {
  static constexpr size_t kEntries = 16;
  std::mutex lock;
  std::vector<Entry> entries;
  size_t next = 0;
  enum { unused, used, closed } state = unused;
};
Cache& cache() {
  static auto* const made = new Cache;  // never destroyed: static destructors may call MPI
  return *made;
}

bool is_predefined(MPI_Datatype type) { return reinterpret_cast<uintptr_t>(type) < kPredefinedEnd; }

bool same(const Shape& a, const Shape& b) {
  return a.element_bytes == b.element_bytes &&
         std::ranges::equal(a.dimensions(), b.dimensions(), [](const Dimension& c, const Dimension& d) {
           return c.extent == d.extent && c.stride == d.stride;
         });
}

/// Attribute of MPI_COMM_SELF, which MPI_Finalize deletes before all else (MPI 5.0 section 11.2.4).
int close_cache(MPI_Comm, int, void*, void*) {
  std::vector<Entry> freed;
  const std::lock_guard guard(cache().lock);
  freed.swap(cache().entries);
  cache().state = Cache::closed;
  return MPI_SUCCESS;
}

/// Registers the end of the cache. Programs without the world model have none.
bool open_cache() {
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

}  // namespace

SharedType find_type(const Shape& shape, MPI_Count count, MPI_Datatype type) {
  if (!is_predefined(type)) return nullptr;
  const std::lock_guard guard(cache().lock);
  for (const Entry& entry : cache().entries)
    if (entry.type == type && entry.count == count && same(entry.shape, shape)) return entry.made;
  return nullptr;
}

void keep_type(const Shape& shape, MPI_Count count, MPI_Datatype type, const SharedType& made) {
  if (!is_predefined(type)) return;
  SharedType replaced;  // freed without the lock
  const std::lock_guard guard(cache().lock);
  Cache& known = cache();
  if (known.state == Cache::unused) {
    if (!open_cache()) return;
    known.state = Cache::used;
  }
  if (known.state == Cache::closed) return;
  const Entry entry{shape, count, type, made};
  if (known.entries.size() < Cache::kEntries) return known.entries.push_back(entry);
  replaced = std::exchange(known.entries[known.next++ % Cache::kEntries], entry).made;
}

}  // namespace weft::fortran
