// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/cufile.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"
#include "device/context_guard.hpp"
#include "device/copy.hpp"
#include "device/pool.hpp"
#include "io/backend/cufile_library.hpp"
#include "io/backend/error.hpp"

namespace weft::io {
namespace {

config::Size least("io.cufile_min", size_t{1} << 20, 4096, size_t{1} << 30,
                   "Smallest access of GPU memory in bytes that uses cuFile; smaller ones are copied through "
                   "pinned memory.");

counters::Counter gpu_file_reads("io.cufile_reads", counters::Unit::events,
                                 "Reads of files into GPU memory by cuFile");
counters::Counter gpu_file_writes("io.cufile_writes", counters::Unit::events,
                                  "Writes of files from GPU memory by cuFile");
log::SlowPath unused{"io.no_cufile", "file accesses of GPU memory are copied through pinned host memory"};

Error unsupported(const std::string& why) { return {Errc::unsupported, why}; }

/// Outcomes of checked reads by file system (st_dev): the reason why it failed; empty: it succeeded.
struct Proofs {
  std::mutex lock;
  std::map<dev_t, std::string> outcomes;
};
Proofs& proofs() {
  static auto& all = *new Proofs;
  return all;
}

dev_t file_system_of(const Descriptor& file) {
  struct stat status {};
  (void)::fstat(file.fd(), &status);
  return status.st_dev;
}

/// The outcome of the checked read on the file system of a file; nothing: there has been none.
std::optional<std::string> outcome_of(const Descriptor& file) {
  const std::lock_guard guard(proofs().lock);
  const auto found = proofs().outcomes.find(file_system_of(file));
  return found == proofs().outcomes.end() ? std::nullopt : std::optional(found->second);
}

void record(const Descriptor& file, const std::string& why_not) {
  const std::lock_guard guard(proofs().lock);
  proofs().outcomes.insert_or_assign(file_system_of(file), why_not);
}

}  // namespace

GpuFile::~GpuFile() {
  if (handle_ != nullptr) cufile::library().remove(handle_);
  if (fd_ >= 0) ::close(fd_);
}

int64_t GpuFile::least_bytes() {
  return cufile::disabled() || !device::available() ? 0 : static_cast<int64_t>(size_t{least});
}

void GpuFile::refuse(const std::string& why) {
  if (cufile::required()) unused.hit(why);
}

bool GpuFile::proven(const Descriptor& file) {
  const std::optional<std::string> why_not = outcome_of(file);
  return why_not && why_not->empty();
}

Status GpuFile::open(const Descriptor& file) {
  if (handle_ != nullptr) return {};
  if (!cufile::library().why_not.empty()) return unsupported(cufile::library().why_not);
  // The same inode, whatever has become of its name.
  const std::string link = "/proc/self/fd/" + std::to_string(file.fd());
  if (fd_ < 0) fd_ = ::open(link.c_str(), (::fcntl(file.fd(), F_GETFL) & O_ACCMODE) | O_DIRECT | O_CLOEXEC);
  if (fd_ < 0)
    return unsupported("the file cannot be opened with O_DIRECT: " + std::string(::strerror(errno)));
  cufile::Description description{};
  description.type = cufile::kDescriptorHandle;
  description.fd = fd_;
  if (const cufile::Code added = cufile::library().add(&handle_, &description); added.code != 0) {
    handle_ = nullptr;
    return unsupported("cuFileHandleRegister failed with error " + std::to_string(added.code));
  }
  return {};
}

Status GpuFile::check_block(const Descriptor& file, const device::Memory& near, int64_t offset) const {
  constexpr auto kBytes = static_cast<size_t>(kAlignment);
  std::array<std::byte, kBytes> by_cpu{}, by_gpu{};
  auto read_by_cpu = file.read(by_cpu.data(), kAlignment, offset);
  if (!read_by_cpu || *read_by_cpu != kAlignment) return unsupported("there is no block for a checked read");
  // Twice the size, so that an aligned block fits.
  auto scratch = device::allocate_scratch(near, 2 * kBytes);
  if (!scratch) return unsupported("no GPU memory for a checked read: " + scratch.error().message());
  auto* const block = reinterpret_cast<std::byte*>((scratch->base + kBytes - 1) / kBytes * kBytes);
  Status copied;
  auto moved = read(file, block, *scratch, kAlignment, offset);
  if (moved) copied = device::copy(by_gpu.data(), {}, block, *scratch, kBytes);
  device::free_scratch(*scratch);
  WEFT_TRY(std::move(copied));
  std::string why_not;
  if (!moved)
    why_not = moved.error().message();
  else if (*moved != kAlignment || by_cpu != by_gpu)
    why_not = "a checked read returned wrong data";
  record(file, why_not);
  return why_not.empty() ? Status() : Status(unsupported(why_not));
}

Status GpuFile::prepare(const Descriptor& file, const device::Memory& near, int64_t offset) {
  const std::lock_guard guard(lock_);
  const device::ContextGuard context(near);
  const std::optional<std::string> why_not = outcome_of(file);
  if (why_not && !why_not->empty()) return unsupported(*why_not);
  WEFT_TRY(open(file));
  return why_not ? Status() : check_block(file, near, offset);
}

namespace {

/// Repeats short transfers. `call(bytes, file offset, offset in the memory)`.
template <class Call>
Result<int64_t> repeat(const Descriptor& file, const char* verb, int64_t bytes, int64_t offset, Call&& call) {
  int64_t done = 0;
  while (done < bytes) {
    errno = 0;
    const ssize_t n = call(static_cast<size_t>(bytes - done), offset + done, done);
    if (n == -1 && errno == EINTR) continue;
    if (n == -1 && errno != 0 && errno != EINVAL)
      return system_error(std::string(verb) + " at byte " + std::to_string(offset + done) + " of",
                          file.path(), errno);
    if (n < 0) {
      const std::string refused =
          "cuFile failed to " + std::string(verb) + " with error " + std::to_string(-n);
      record(file, refused);
      return unsupported(refused);
    }
    if (n == 0) break;
    done += n;
    if (n % GpuFile::kAlignment != 0) break;  // the end of the file
  }
  return done;
}

}  // namespace

Result<int64_t> GpuFile::read(const Descriptor& file, void* to, const device::Memory& memory, int64_t bytes,
                              int64_t offset) const {
  WEFT_ASSERT(handle_ != nullptr && bytes % kAlignment == 0 && offset % kAlignment == 0);
  const device::ContextGuard context(memory);
  gpu_file_reads.add();
  return repeat(file, "read", bytes, offset, [&](size_t n, off_t at, off_t from) {
    return cufile::library().read(handle_, to, n, at, from);
  });
}

Result<int64_t> GpuFile::write(const Descriptor& file, const void* from, const device::Memory& memory,
                               int64_t bytes, int64_t offset) const {
  WEFT_ASSERT(handle_ != nullptr && bytes % kAlignment == 0 && offset % kAlignment == 0);
  const device::ContextGuard context(memory);
  gpu_file_writes.add();
  return repeat(file, "write", bytes, offset, [&](size_t n, off_t at, off_t to) {
    return cufile::library().write(handle_, from, n, at, to);
  });
}

}  // namespace weft::io
