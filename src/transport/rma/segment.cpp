// SPDX-License-Identifier: BSD-3-Clause
#include "transport/rma/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/counters.hpp"

namespace weft::transport::rma {
namespace {

counters::Counter segments("rma.segments", counters::Unit::objects,
                           "Mapped segments of window memory, own and of other processes");

Error system_error(Errc code, const char* what) {
  const int reason = errno;
  return Error(code,
               std::string("shared window memory: ") + what + " failed (" + std::strerror(reason) + ")");
}

}  // namespace

Segment::~Segment() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes());
    segments.subtract();
  }
  if (own_descriptor_ >= 0) ::close(own_descriptor_);
}

Status Segment::map(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return system_error(Errc::other, "fstat");
  name_.device = status.st_dev;
  name_.inode = status.st_ino;
  name_.bytes = static_cast<uint64_t>(status.st_size);
  void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return system_error(Errc::no_mem, "mmap");
  data_ = static_cast<std::byte*>(memory);
  segments.add();
  return {};
}

Result<std::unique_ptr<Segment>> Segment::create(size_t bytes) {
  std::unique_ptr<Segment> segment(new Segment);
  segment->own_descriptor_ = ::memfd_create("weft-window", MFD_CLOEXEC);
  if (segment->own_descriptor_ < 0) return system_error(Errc::other, "memfd_create");
  rlimit limit{};  // a file that grows beyond ulimit -f kills the process
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return Error(Errc::other, "shared window memory: " + std::to_string(bytes) +
                                  " bytes exceed the file size limit (ulimit -f): raise it");
  if (::ftruncate(segment->own_descriptor_, static_cast<off_t>(bytes)) != 0)
    return system_error(Errc::no_mem, "ftruncate");
  WEFT_TRY(segment->map(segment->own_descriptor_));
  segment->name_.descriptor = segment->own_descriptor_;
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::attach(pid_t owner, const SegmentName& name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", owner, name.descriptor);
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error(Errc::unsupported, path);
  std::unique_ptr<Segment> segment(new Segment);
  const Status mapped = segment->map(descriptor);
  ::close(descriptor);
  if (!mapped) return Error(Errc::unsupported, mapped.error().message());
  segment->name_.descriptor = name.descriptor;
  if (segment->name_ != name) return Error(Errc::unsupported, "shared window memory: its owner has freed it");
  return segment;
}

/// The first range that is large enough.
std::byte* SegmentPool::allocate(size_t bytes) {
  const size_t units = (bytes + kPieceUnit - 1) / kPieceUnit;
  size_t at = 0;
  for (const auto& [first, length] : used_) {
    if (first - at >= units) break;
    at = first + length;
  }
  if (bytes > kMaxPiece || kUnits - at < units) return nullptr;
  if (segment_ == nullptr) {
    auto made = Segment::create(kPieceUnit * kUnits);
    if (!made) return nullptr;
    segment_ = std::move(*made);
  }
  used_.emplace(at, units);
  return segment_->data() + at * kPieceUnit;
}

void SegmentPool::free(std::byte* memory) {
  used_.erase(static_cast<size_t>(memory - segment_->data()) / kPieceUnit);
}

}  // namespace weft::transport::rma
