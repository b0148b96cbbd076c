// SPDX-License-Identifier: BSD-3-Clause
#include "api/fortran/type_cache.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::fortran {

namespace {

struct Entry {
  std::vector<Dimension> dimensions;
  size_t element_bytes = 0;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  SharedType made;
};

struct Cache {
  static constexpr size_t kEntries = 16;
  std::mutex lock;
  Entry entries[kEntries];
  size_t next = 0;
  enum { unused, used, closed } state = unused;
};
Cache& cache() {
  static auto* const made = new Cache;  // never destroyed: static destructors may call MPI
  return *made;
}

bool is_predefined(MPI_Datatype type) { return reinterpret_cast<uintptr_t>(type) < kPredefinedEnd; }

bool same(const Dimension& a, const Dimension& b) { return a.extent == b.extent && a.stride == b.stride; }

/// Attribute of MPI_COMM_SELF, which MPI_Finalize deletes before all else (MPI 5.0 section 11.2.4).
int close_cache(MPI_Comm, int, void*, void*) {
  std::vector<SharedType> freed;
  const std::lock_guard guard(cache().lock);
  for (Entry& entry : cache().entries) freed.push_back(std::move(entry.made));
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
    if (entry.made != nullptr && entry.type == type && entry.count == count &&
        entry.element_bytes == shape.element_bytes &&
        std::equal(entry.dimensions.begin(), entry.dimensions.end(), shape.dimensions.begin(),
                   shape.dimensions.end(), same))
      return entry.made;
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
  Entry& entry = known.entries[known.next++ % Cache::kEntries];
  replaced = std::move(entry.made);
  entry = {shape.dimensions, shape.element_bytes, count, type, made};
}

}  // namespace weft::fortran
