// SPDX-License-Identifier: BSD-3-Clause
// Contiguous runs of cuMemMap mappings: their ids, export as file descriptors, and import from a peer.
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
#include "device/cuda/peer.hpp"
#include "device/ipc.hpp"

namespace weft::device {
namespace {

using cuda::Address;
using cuda::Code;
using cuda::kSuccess;

constexpr int kMinVersion = 12000;  // CUDA version with kAttributeMappingBase on all drivers
constexpr size_t kMaxCachedRuns = 16384;

/// One cuMemMap mapping.
struct Extent {
  Address base;
  size_t size;
  unsigned long long buffer_id, block_id;  // ids of the mapping and of the physical memory
  [[nodiscard]] Address end() const { return base + size; }
  bool operator==(const Extent&) const = default;
};

/// Contiguous mappings on one device; fixed size, no allocation.
struct Run {
  size_t count = 0;
  int device = -1;
  Extent extents[kMaxShareableHandles];
  [[nodiscard]] std::span<const Extent> all() const { return {extents, count}; }
  [[nodiscard]] Address begin() const { return extents[0].base; }
  [[nodiscard]] Address end() const { return extents[count - 1].end(); }
};

/// Appends the mapping at an address. False: no mapping, pool memory, or not contiguous with the run.
bool extend(Run& run, Address at) {
  if (run.count == kMaxShareableHandles || cuda::driver().version < kMinVersion) return false;
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

/// Finds the mappings of [begin, end). False: gaps, or too many mappings.
bool find(Run& run, Address begin, Address end) {
  for (Address at = begin; at < end; at = run.end())
    if (!extend(run, at)) return false;
  return run.count != 0;
}

/// Finds the mappings of `memory`. False if they do not match its bounds any more.
bool find(Run& run, const Memory& memory) {
  return find(run, memory.base, memory.base + memory.size) && run.begin() == memory.base &&
         run.end() == memory.base + memory.size;
}

/// Unique ids of runs, never reused. A run is identified by the driver's ids of its mappings and of their
/// physical memory.
class RunIds {
 public:
  uint64_t of(const Run& run) {
    const std::lock_guard lock(mutex_);
    if (const CachedId* recent = find_recent(run)) return recent->number;
    std::vector<Extent> key(run.all().begin(), run.all().end());
    if (ids_.size() >= kMaxCachedRuns) ids_.clear();
    const auto [at, made] = ids_.try_emplace(key, next_);
    if (made) ++next_;
    recent_[next_slot_++ % kRecent] = {at->second, std::move(key)};
    return at->second;
  }
  bool is(uint64_t number, const Run& run) {
    const std::lock_guard lock(mutex_);
    if (const CachedId* recent = find_recent(run)) return recent->number == number;
    const auto at = ids_.find({run.all().begin(), run.all().end()});
    return at != ids_.end() && at->second == number;
  }

 private:
  static constexpr size_t kRecent = 8;
  struct CachedId {
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
  [[nodiscard]] const CachedId* find_recent(const Run& run) const {
    for (const CachedId& known : recent_)
      if (std::ranges::equal(known.extents, run.all())) return &known;
    return nullptr;
  }
  std::mutex mutex_;
  std::map<std::vector<Extent>, uint64_t, Less> ids_;
  CachedId recent_[kRecent];
  size_t next_slot_ = 0;
  uint64_t next_ = uint64_t{1} << 63;  // disjoint from the driver's ids, which count from 1
};

RunIds& run_ids() {
  static auto& instance = *new RunIds;
  return instance;
}

Memory run_of(Memory memory, const Run& run) {
  memory.mapped = true;
  memory.base = run.begin();
  memory.size = run.end() - run.begin();
  memory.buffer_id = run_ids().of(run);
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
  if (!can) return not_shared("cuMemCreate did not request file descriptors");
  return fd;
}

}  // namespace

void cuda::describe_mapped(Memory& memory, const void* p) {
  Run run;
  if (extend(run, reinterpret_cast<Address>(p))) memory = run_of(memory, run);
}

bool cuda::still_mapped(const Memory& memory) {
  Run run;
  return find(run, memory) && run_ids().is(memory.buffer_id, run);
}

Memory widened(const Memory& memory, const void* first, size_t n) {
  if (!memory.mapped || n == 0 || memory.covers(first, n) || !available()) return memory;
  const auto begin = reinterpret_cast<Address>(first);
  Run run;
  return find(run, begin, begin + n) && run.device == memory.device ? run_of(memory, run) : memory;
}

void close_all(std::span<const ShareableHandle> pieces) {
  for (const ShareableHandle& piece : pieces) ::close(piece.fd);
}

Result<std::vector<ShareableHandle>> export_shareable_handles(const Memory& memory) {
  if (cuda::driver().mem_retain_handle == nullptr || cuda::driver().mem_export == nullptr)
    return not_shared("not supported by the driver");
  Run run;
  if (!find(run, memory) || !run_ids().is(memory.buffer_id, run)) return not_shared("it has been unmapped");
  std::vector<ShareableHandle> descriptors;
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

/// Maps the allocations contiguously, starting at `address`. `call` is the failing call.
Code map_pieces(std::span<const ShareableHandle> pieces, Address address, size_t& mapped, const char*& call) {
  const auto& driver = cuda::driver();
  for (const ShareableHandle& piece : pieces) {
    cuda::MemoryHandle handle = 0;
    // The driver expects the descriptor value cast to a pointer.
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

}  // namespace

Result<Memory> open_shareable_handles(std::span<const ShareableHandle> pieces, const GpuId& owner,
                                      const Memory& local) {
  const auto not_mapped = [&](const char* call, Code code) {
    return cuda::not_mapped(call, code, owner, local);
  };
  auto device = cuda::check_peer(owner, local);
  if (!device) return std::move(device).error();
  auto context = cuda::context_of(local);
  if (!context) return std::move(context).error();
  const cuda::CurrentContext current(*context);
  if (current.code() != kSuccess) return not_mapped("cuCtxPushCurrent", current.code());
  const cuda::RelaxedCapture relaxed;
  const auto& driver = cuda::driver();
  if (driver.mem_import == nullptr || driver.mem_map == nullptr)
    return not_mapped("cuMemMap", cuda::kNotSupported);
  size_t size = 0, mapped = 0;
  for (const ShareableHandle& piece : pieces) size += piece.size;
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
  memory.device = *device;
  memory.context = *context;
  memory.base = address;
  memory.size = size;
  cuda::note_imported(memory);
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
