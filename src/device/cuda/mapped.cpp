// SPDX-License-Identifier: BSD-3-Clause
// Runs of cuMemMap's mappings: what they are called, their descriptors, and a peer's, mapped here.
#include "device/cuda/mapped.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
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
  Address base = 0;
  size_t size = 0;
  unsigned long long buffer_id = 0, block_id = 0;  // of the mapping, of the physical memory
  int device = -1;
  [[nodiscard]] Address end() const { return base + size; }
};

/// The mapping at an address. False: there is none, or it is of a pool.
bool look(Address at, Extent& piece) {
  void* pool = nullptr;
  int attributes[] = {cuda::kAttributeBufferId,    cuda::kAttributeDeviceOrdinal, cuda::kAttributePool,
                      cuda::kAttributeMappingSize, cuda::kAttributeMappingBase,   cuda::kAttributeBlockId};
  void* values[] = {&piece.buffer_id, &piece.device, &pool, &piece.size, &piece.base, &piece.block_id};
  if (cuda::driver().version < kSince ||
      cuda::driver().pointer_get_attributes(std::size(attributes), attributes, values, at) != kSuccess)
    return false;
  return pool == nullptr && piece.size != 0 && piece.base <= at && at - piece.base < piece.size &&
         piece.block_id != 0;
}

/// The mappings of [begin, end), side by side on one device; empty: there are gaps, or too many of them.
std::vector<Extent> pieces_of(Address begin, Address end) {
  std::vector<Extent> pieces;
  for (Address at = begin; at < end;) {
    Extent piece;
    const bool good = pieces.size() < kMostDescriptors && look(at, piece) &&
                      (pieces.empty() || (piece.base == at && piece.device == pieces[0].device));
    if (!good) return {};
    pieces.push_back(piece);
    at = piece.end();
  }
  return pieces;
}

/// Numbers of runs, none given twice. What lies at an address is told by the driver's ids of the mapping and
/// of the memory behind it.
class Numbers {
 public:
  uint64_t of(const std::vector<Extent>& pieces) {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> key = key_of(pieces);
    if (latest_ != 0 && key == latest_key_) return latest_;
    if (numbers_.size() >= kRuns) numbers_.clear();
    const auto [at, made] = numbers_.try_emplace(std::move(key), next_);
    if (made) ++next_;
    latest_key_ = at->first;
    return latest_ = at->second;
  }
  bool is(uint64_t number, const std::vector<Extent>& pieces) {
    const std::lock_guard lock(mutex_);
    const auto at = numbers_.find(key_of(pieces));
    return at != numbers_.end() && at->second == number;
  }

 private:
  static std::vector<uint64_t> key_of(const std::vector<Extent>& pieces) {
    std::vector<uint64_t> key;
    key.reserve(pieces.size() * 4);
    for (const Extent& piece : pieces)
      key.insert(key.end(), {piece.base, piece.size, piece.buffer_id, piece.block_id});
    return key;
  }
  std::mutex mutex_;
  std::map<std::vector<uint64_t>, uint64_t> numbers_;
  std::vector<uint64_t> latest_key_;
  uint64_t latest_ = 0, next_ = uint64_t{1} << 63;  // the driver's own ids count from 1
};

Numbers& numbers() {
  static auto& instance = *new Numbers;
  return instance;
}

Memory run_of(Memory memory, const std::vector<Extent>& pieces) {
  memory.mapped = true;
  memory.base = pieces.front().base;
  memory.size = pieces.back().end() - pieces.front().base;
  memory.buffer_id = numbers().of(pieces);
  return memory;
}

std::vector<Extent> pieces_of(const Memory& memory) {
  auto pieces = pieces_of(memory.base, memory.base + memory.size);
  if (!pieces.empty() &&
      (pieces.front().base != memory.base || pieces.back().end() != memory.base + memory.size))
    pieces.clear();
  return pieces;
}

Error not_shared(const std::string& why) {
  return Error(Errc::unsupported, "the GPU buffer cannot be mapped by another process (" + why +
                                      "): memory of cuMemCreate with requestedHandleTypes = "
                                      "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR can");
}

Error not_shared(const char* call, Code code) {
  return not_shared(std::string(call) + ": " + cuda::describe(code));
}

Result<int> descriptor_of(const Extent& piece) {
  const auto& driver = cuda::driver();
  cuda::MemoryHandle handle = 0;
  if (const Code code = driver.mem_retain_handle(&handle, reinterpret_cast<void*>(piece.base));
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
  Extent piece;
  if (look(reinterpret_cast<Address>(p), piece)) memory = run_of(memory, {piece});
}

bool cuda::mapped_still(const Memory& memory) {
  const auto pieces = pieces_of(memory);
  return !pieces.empty() && numbers().is(memory.buffer_id, pieces);
}

Memory widened(const Memory& memory, const void* first, size_t n) {
  if (!memory.mapped || n == 0 || memory.covers(first, n) || !available()) return memory;
  const auto begin = reinterpret_cast<Address>(first);
  const auto pieces = pieces_of(begin, begin + n);
  return pieces.empty() || pieces[0].device != memory.device ? memory : run_of(memory, pieces);
}

Result<std::vector<Descriptor>> export_descriptors(const Memory& memory) {
  if (cuda::driver().mem_retain_handle == nullptr || cuda::driver().mem_export == nullptr)
    return not_shared("the driver cannot");
  const auto pieces = pieces_of(memory);
  if (pieces.empty() || !numbers().is(memory.buffer_id, pieces)) return not_shared("it has been unmapped");
  std::vector<Descriptor> descriptors;
  for (const Extent& piece : pieces) {
    auto fd = descriptor_of(piece);
    if (!fd) {
      for (const Descriptor& made : descriptors) ::close(made.fd);
      return std::move(fd).error();
    }
    descriptors.push_back({*fd, piece.size});
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
