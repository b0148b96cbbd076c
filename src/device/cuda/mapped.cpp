// SPDX-License-Identifier: BSD-3-Clause
// Runs of cuMemMap's mappings: what they are called, their descriptors, and a peer's, mapped here.
#include "device/cuda/mapped.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/ipc.hpp"

namespace weft::device {
namespace {

using cuda::Address;
using cuda::Code;
using cuda::kSuccess;

constexpr int kSince = 12000;  // CUDA version that says where a mapping begins, on every driver from it on
constexpr size_t kRuns = 16384;

/// One mapping.
struct Extent {
  Address base;
  size_t size;
  unsigned long long buffer_id, block_id;  // of the mapping, of the physical memory
  [[nodiscard]] Address end() const { return base + size; }
  bool operator==(const Extent&) const = default;
};

/// Mappings side by side on one device; no memory is taken for it.
struct Run {
  size_t count = 0;
  int device = -1;
  Extent extents[kMostDescriptors];
  [[nodiscard]] std::span<const Extent> all() const { return {extents, count}; }
  [[nodiscard]] Address begin() const { return extents[0].base; }
  [[nodiscard]] Address end() const { return extents[count - 1].end(); }
};

/// Adds the mapping at an address. False: there is none, or it is of a pool, or does not join the others.
bool extend(Run& run, Address at) {
  if (run.count == kMostDescriptors || cuda::driver().version < kSince) return false;
  Extent extent{};
  void* pool = nullptr;
  int device = -1;
  int attributes[] = {cuda::kAttributeBufferId,    cuda::kAttributeDeviceOrdinal, cuda::kAttributePool,
                      cuda::kAttributeMappingSize, cuda::kAttributeMappingBase,   cuda::kAttributeBlockId};
  void* values[] = {&extent.buffer_id, &device, &pool, &extent.size, &extent.base, &extent.block_id};
  if (cuda::driver().pointer_get_attributes(std::size(attributes), attributes, values, at) != kSuccess ||
      pool != nullptr || extent.size == 0 || extent.base > at || at - extent.base >= extent.size ||
      extent.block_id == 0)
    return false;
  if (run.count != 0 && (extent.base != at || device != run.device)) return false;
  run.device = device;
  run.extents[run.count++] = extent;
  return true;
}

/// The mappings of [begin, end). False: there are gaps, or too many of them.
bool find(Run& run, Address begin, Address end) {
  for (Address at = begin; at < end; at = run.end())
    if (!extend(run, at)) return false;
  return run.count != 0;
}

/// Exactly those that `memory` was described by.
bool find(Run& run, const Memory& memory) {
  return find(run, memory.base, memory.base + memory.size) && run.begin() == memory.base &&
         run.end() == memory.base + memory.size;
}

/// Numbers of runs, none given twice. What lies at an address is told by the driver's ids of the mapping and
/// of the memory behind it.
class Numbers {
 public:
  uint64_t of(const Run& run) {
    const std::lock_guard lock(mutex_);
    if (const Known* recent = look(run)) return recent->number;
    std::vector<Extent> key(run.all().begin(), run.all().end());
    if (numbers_.size() >= kRuns) numbers_.clear();
    const auto [at, made] = numbers_.try_emplace(key, next_);
    if (made) ++next_;
    recent_[turn_++ % kRecent] = {at->second, std::move(key)};
    return at->second;
  }
  bool is(uint64_t number, const Run& run) {
    const std::lock_guard lock(mutex_);
    if (const Known* recent = look(run)) return recent->number == number;
    const auto at = numbers_.find({run.all().begin(), run.all().end()});
    return at != numbers_.end() && at->second == number;
  }

 private:
  static constexpr size_t kRecent = 8;
  struct Known {
    uint64_t number = 0;
    std::vector<Extent> extents;
  };
  struct Less {
    static auto key(const Extent& e) { return std::tie(e.base, e.size, e.buffer_id, e.block_id); }
    bool operator()(const std::vector<Extent>& a, const std::vector<Extent>& b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                          [](const Extent& x, const Extent& y) { return key(x) < key(y); });
    }
  };
  [[nodiscard]] const Known* look(const Run& run) const {
    for (const Known& known : recent_)
      if (std::ranges::equal(known.extents, run.all())) return &known;
    return nullptr;
  }
  std::mutex mutex_;
  std::map<std::vector<Extent>, uint64_t, Less> numbers_;
  Known recent_[kRecent];
  size_t turn_ = 0;
  uint64_t next_ = uint64_t{1} << 63;  // the driver's own ids count from 1
};

Numbers& numbers() {
  static auto& instance = *new Numbers;
  return instance;
}

Memory run_of(Memory memory, const Run& run) {
  memory.mapped = true;
  memory.base = run.begin();
  memory.size = run.end() - run.begin();
  memory.buffer_id = numbers().of(run);
  return memory;
}

Error not_shared(const std::string& why) {
  return Error(Errc::unsupported, "the GPU buffer cannot be mapped by another process (" + why +
                                      "): memory of cuMemCreate with requestedHandleTypes = "
                                      "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR can");
}

Error not_shared(const char* call, Code code) {
  return not_shared(std::string(call) + ": " + cuda::describe(code));
}

Result<int> descriptor_of(const Extent& extent) {
  const auto& driver = cuda::driver();
  cuda::MemoryHandle handle = 0;
  if (const Code code = driver.mem_retain_handle(&handle, reinterpret_cast<void*>(extent.base));
      code != kSuccess)
    return not_shared("cuMemRetainAllocationHandle", code);
  cuda::MemoryProperties properties{};
  int fd = -1;
  Code code = driver.mem_get_properties(&properties, handle);
  const bool can = (properties.handle_types & cuda::kPosixDescriptor) != 0 &&
                   properties.location.type == cuda::kLocationDevice;
  if (code == kSuccess && can) code = driver.mem_export(&fd, handle, cuda::kPosixDescriptor, 0);
  driver.mem_release(handle);
  if (code != kSuccess) return not_shared("cuMemExportToShareableHandle", code);
  if (!can) return not_shared("cuMemCreate was not asked for a file descriptor");
  return fd;
}

}  // namespace

void cuda::describe_mapped(Memory& memory, const void* p) {
  Run run;
  if (extend(run, reinterpret_cast<Address>(p))) memory = run_of(memory, run);
}

bool cuda::mapped_still(const Memory& memory) {
  Run run;
  return find(run, memory) && numbers().is(memory.buffer_id, run);
}

Memory widened(const Memory& memory, const void* first, size_t n) {
  if (!memory.mapped || n == 0 || memory.covers(first, n) || !available()) return memory;
  const auto begin = reinterpret_cast<Address>(first);
  Run run;
  return find(run, begin, begin + n) && run.device == memory.device ? run_of(memory, run) : memory;
}

void close_all(std::span<const Descriptor> pieces) {
  for (const Descriptor& piece : pieces) ::close(piece.fd);
}

Result<std::vector<Descriptor>> export_descriptors(const Memory& memory) {
  if (cuda::driver().mem_retain_handle == nullptr || cuda::driver().mem_export == nullptr)
    return not_shared("the driver cannot");
  Run run;
  if (!find(run, memory) || !numbers().is(memory.buffer_id, run)) return not_shared("it has been unmapped");
  std::vector<Descriptor> descriptors;
  for (const Extent& extent : run.all()) {
    auto fd = descriptor_of(extent);
    if (!fd) {
      close_all(descriptors);
      return std::move(fd).error();
    }
    descriptors.push_back({*fd, extent.size});
  }
  return descriptors;
}

namespace {

/// Maps each piece, behind each other from `address` on.
Code map_pieces(std::span<const Descriptor> pieces, Address address, size_t& mapped, const char*& call) {
  const auto& driver = cuda::driver();
  for (const Descriptor& piece : pieces) {
    cuda::MemoryHandle handle = 0;
    // The driver takes the descriptor in place of a pointer.
    auto* const as_pointer = reinterpret_cast<void*>(static_cast<intptr_t>(piece.fd));
    call = "cuMemImportFromShareableHandle";
    if (const Code code = driver.mem_import(&handle, as_pointer, cuda::kPosixDescriptor); code != kSuccess)
      return code;
    call = "cuMemMap";
    const Code code = driver.mem_map(address + mapped, piece.size, 0, handle, 0);
    driver.mem_release(handle);
    if (code != kSuccess) return code;
    mapped += piece.size;
  }
  return kSuccess;
}

Error not_mapped(const char* call, Code code) {
  return Error(Errc::unsupported, std::string("a peer's GPU buffer cannot be mapped (") + call + ": " +
                                      cuda::describe(code) + "): its transfers are packed or staged");
}

}  // namespace

Result<Memory> open_descriptors(std::span<const Descriptor> pieces, int device, const Memory& local) {
  auto context = cuda::context_of(local);
  if (!context) return std::move(context).error();
  const cuda::CurrentContext current(*context);
  if (current.code() != kSuccess) return not_mapped("cuCtxPushCurrent", current.code());
  const cuda::RelaxedCapture relaxed;
  const auto& driver = cuda::driver();
  if (driver.mem_import == nullptr || driver.mem_map == nullptr)
    return not_mapped("cuMemMap", cuda::kNotSupported);
  size_t size = 0, mapped = 0;
  for (const Descriptor& piece : pieces) size += piece.size;
  Address address = 0;
  const char* call = "cuMemAddressReserve";
  Code code = driver.mem_address_reserve(&address, size, 0, 0, 0);
  if (code != kSuccess) return not_mapped(call, code);
  code = map_pieces(pieces, address, mapped, call);
  if (code == kSuccess) {
    call = "cuMemSetAccess";
    const cuda::MemoryAccess access{{cuda::kLocationDevice, local.device}, cuda::kReadWrite};
    code = driver.mem_set_access(address, size, &access, 1);
  }
  if (code != kSuccess) {
    if (mapped != 0) driver.mem_unmap(address, mapped);
    driver.mem_address_free(address, size);
    return not_mapped(call, code);
  }
  Memory memory;
  memory.kind = MemoryKind::cuda_device;
  memory.mapped = true;
  memory.device = device;
  memory.context = *context;
  memory.base = address;
  memory.size = size;
  return memory;
}

Status cuda::unmap(const Memory& mapped) {
  const RelaxedCapture relaxed;
  Code code = driver().mem_unmap(mapped.base, mapped.size);
  if (code == kSuccess) code = driver().mem_address_free(mapped.base, mapped.size);
  if (code == kSuccess || gone(code)) return {};
  return failure(code, "cuMemUnmap", "a peer's GPU buffer cannot be unmapped");
}

}  // namespace weft::device
