// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace weft::io {

Mapping::Mapping(const Descriptor& file, const Range& range) {
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  if (!file.provide(range)) return;
  first_ = range.first / page * page;
  bytes_ = (range.end + page - 1) / page * page - first_;
  const auto bytes = static_cast<size_t>(bytes_);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), first_);
  if (at == MAP_FAILED) return;
  // Reports pages that cannot be had; touching them would raise SIGBUS.
  if (::madvise(at, bytes, MADV_POPULATE_WRITE) != 0) {
    ::munmap(at, bytes);
    return;
  }
  memory_ = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
  if (memory_ != nullptr) ::munmap(memory_, static_cast<size_t>(bytes_));
}

}  // namespace weft::io
