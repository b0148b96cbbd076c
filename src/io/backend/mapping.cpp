// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace weft::io {
namespace {

int64_t page_bytes() {
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  return page;
}

}  // namespace

Mapping::Mapping(const Descriptor& file, const Range& range, Use use) {
  const int64_t page = page_bytes();
  first_ = range.first / page * page;
  bytes_ = (range.end + page - 1) / page * page - first_;
  const int protection = use == Use::write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const at = ::mmap(nullptr, static_cast<size_t>(bytes_), protection, MAP_SHARED, file.fd(), first_);
  if (at != MAP_FAILED) memory_ = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
  if (memory_ != nullptr) ::munmap(memory_, static_cast<size_t>(bytes_));
}

bool Mapping::advise(const Range& part, int advice) const {
  const int64_t page = page_bytes();
  const int64_t first = part.first / page * page;
  const int64_t end = (part.end + page - 1) / page * page;
  return ::madvise(at(first), static_cast<size_t>(end - first), advice) == 0;
}

bool Mapping::populate(const Range& part) const { return advise(part, MADV_POPULATE_WRITE); }

bool Mapping::populate_resident(const Range& part) const { return advise(part, MADV_POPULATE_READ); }

}  // namespace weft::io
