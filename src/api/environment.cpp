// SPDX-License-Identifier: BSD-3-Clause
// Environment: versions, ABI information, host name, addresses, memory (MPI 5.0 sections 4.1.5, 9.1, 9.2 and
// 20).
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "api/check.hpp"
#include "api/impl.hpp"
#include "api/memory_kinds.hpp"
#include "api/objects.hpp"
#include "base/version.hpp"
#include "core/remote_memory.hpp"
#include "transport/shm/shm.hpp"

namespace weft::api::impl {
namespace {

constexpr size_t kAlignment = 64;  // bytes: a cache line and the widest vector registers

/// Alignment in bytes from the hint mpi_minimum_memory_alignment, at least kAlignment.
Result<size_t> alignment_of(const core::Info* info) {
  const auto text = info == nullptr ? std::nullopt : info->get("mpi_minimum_memory_alignment");
  if (!text) return kAlignment;
  size_t value = 0;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failure != std::errc{} || end != text->data() + text->size() || value == 0 ||
      (value & (value - 1)) != 0)
    return Error(Errc::info_value,
                 "mpi_minimum_memory_alignment = \"" + std::string(*text) + "\" is not a power of two");
  return value < kAlignment ? kAlignment : value;
}

constexpr size_t kMaxMappedAllocations = 128;  // each keeps a descriptor open
constexpr size_t kPageBytes = 4096;

/// Memory of MPI_Alloc_mem that other ranks of the host can map, in transport::rma.
std::set<void*>& mapped_memory() {
  static auto* const known = new std::set<void*>;
  return *known;
}

/// Allocates memory that the other ranks of this host can map if it becomes part of a window; null: there are
/// none, or there is no such memory left.
void* allocate_mapped(size_t bytes, size_t alignment) {
  core::Instance& instance = *g_instance;
  if (instance.shm == nullptr || instance.shm->members().size() < 2 || alignment > kPageBytes ||
      mapped_memory().size() >= kMaxMappedAllocations)
    return nullptr;
  auto memory = instance.remote_memory().rma().allocate(bytes);
  if (!memory) return nullptr;
  mapped_memory().insert(*memory);
  return *memory;
}

/// Host memory; `mapped`: preferably memory that other ranks can map.
Result<void*> allocate_host(size_t bytes, size_t alignment, bool mapped) {
  if (void* const shared = mapped ? allocate_mapped(bytes, alignment) : nullptr) return shared;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0)
    return Error(Errc::no_mem,
                 "size = " + std::to_string(bytes) + " bytes cannot be allocated: free some memory");
  return memory;
}

/// Memory of MPI_Alloc_mem that the CUDA driver has allocated, by address.
std::map<void*, device::Allocation>& driver_memory() {
  static auto* const known = new std::map<void*, device::Allocation>;
  return *known;
}

/// Info key and size in bytes of an ABI type.
struct TypeSize {
  const char* key;
  const char* bytes;
};
constexpr TypeSize kAbiSizes[] = {{"mpi_aint_size", "8"}, {"mpi_count_size", "8"}, {"mpi_offset_size", "8"}};
static_assert(sizeof(MPI_Aint) == 8 && sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8);
constexpr TypeSize kFortranSizes[] = {{"mpi_logical_size", "4"},
                                      {"mpi_integer_size", "4"},
                                      {"mpi_real_size", "4"},
                                      {"mpi_double_precision_size", "8"}};

/// Values set by a Fortran binding (MPI 5.0 section 20.5), possibly before MPI_Init.
struct FortranAbi {
  core::Ref<core::Info> info;
  int logical_size = 0;  ///< bytes; 0: not set
  int64_t logical_true = 0, logical_false = 0;
};
FortranAbi& fortran_abi() {
  static auto* const known = new FortranAbi;  // never destroyed: static destructors may call MPI
  return *known;
}

/// Reads a Fortran LOGICAL of `size` bytes.
Result<int64_t> read_logical(int size, const void* value) {
  switch (size) {
    case 1:
      return *static_cast<const int8_t*>(value);
    case 2:
      return *static_cast<const int16_t*>(value);
    case 4:
      return *static_cast<const int32_t*>(value);
    case 8:
      return *static_cast<const int64_t*>(value);
    default:
      return Error(Errc::arg, "logical_size = " + std::to_string(size) + ": use 1, 2, 4 or 8");
  }
}

void write_logical(int size, void* target, int64_t value) {
  switch (size) {
    case 1:
      *static_cast<int8_t*>(target) = static_cast<int8_t>(value);
      break;
    case 2:
      *static_cast<int16_t*>(target) = static_cast<int16_t>(value);
      break;
    case 4:
      *static_cast<int32_t*>(target) = static_cast<int32_t>(value);
      break;
    default:
      *static_cast<int64_t*>(target) = value;
  }
}

}  // namespace

Status Get_version(int* version, int* subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return {};
}

Status Get_library_version(char* version, int* resultlen) {
  const std::string text = std::string("Weft ") + kBuildVersion + " (MPI 5.0 standard ABI)";
  copy_text(text, version, MPI_MAX_LIBRARY_VERSION_STRING, resultlen);
  return {};
}

Status Get_processor_name(char* name, int* resultlen) {
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  if (gethostname(host, sizeof host - 1) != 0)
    return Error(Errc::other, "cannot get the host name (gethostname failed)");
  copy_text(host, name, MPI_MAX_PROCESSOR_NAME, resultlen);
  return {};
}

Status Pcontrol(int) { return {}; }  // for profiling libraries to override

Status Abi_get_version(int* abi_major, int* abi_minor) {
  *abi_major = MPI_ABI_VERSION;
  *abi_minor = MPI_ABI_SUBVERSION;
  return {};
}

Status Abi_get_info(MPI_Info* info) {
  core::Info* made = core::Info::create();
  if (made != nullptr)
    for (const TypeSize& size : kAbiSizes) made->set(size.key, size.bytes);
  return return_new_object(made, info);
}

Status Abi_get_fortran_info(MPI_Info* info) {
  if (!fortran_abi().info) {
    *info = MPI_INFO_NULL;
    return {};
  }
  return return_new_object(core::Info::duplicate(*fortran_abi().info), info);
}

Status Abi_set_fortran_info(core::Info* info) {
  if (info == nullptr) return Error(Errc::info, "info is MPI_INFO_NULL: pass the sizes of Fortran types");
  if (fortran_abi().info) return Error(Errc::abi, "the sizes of Fortran types are already set");
  for (const TypeSize& size : kFortranSizes) {
    const auto known = info->get(size.key);
    if (known && *known != size.bytes)
      return Error(Errc::abi, std::string(size.key) + " = " + std::string(*known) +
                                  ": this library supports only " + size.bytes +
                                  " (compile the Fortran code without -i8 or -r8)");
  }
  fortran_abi().info = core::Ref<core::Info>(core::Info::duplicate(*info));
  return {};
}

Status Abi_get_fortran_booleans(int logical_size, void* logical_true, void* logical_false, int* is_set) {
  const FortranAbi& known = fortran_abi();
  *is_set = known.logical_size != 0;
  if (known.logical_size == 0) return {};
  if (logical_size != known.logical_size)
    return Error(Errc::arg, "logical_size = " + std::to_string(logical_size) + ": the stored values have " +
                                std::to_string(known.logical_size) + " bytes");
  write_logical(logical_size, logical_true, known.logical_true);
  write_logical(logical_size, logical_false, known.logical_false);
  return {};
}

Status Abi_set_fortran_booleans(int logical_size, void* logical_true, void* logical_false) {
  if (fortran_abi().logical_size != 0) return Error(Errc::abi, "the Fortran logical values are already set");
  auto yes = read_logical(logical_size, logical_true), no = read_logical(logical_size, logical_false);
  if (!yes) return std::move(yes).error();
  if (*yes != 1 || *no != 0)
    return Error(Errc::abi, ".TRUE. = " + std::to_string(*yes) + ", .FALSE. = " + std::to_string(*no) +
                                ": the logical operations of this library return only 1 and 0");
  fortran_abi().logical_size = logical_size;
  fortran_abi().logical_true = *yes;
  fortran_abi().logical_false = *no;
  return {};
}

Status Get_address(const void* location, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return {};
}

Status Alloc_mem(MPI_Aint size, core::Info* info, void* baseptr) {
  if (size < 0) return negative(Errc::arg, "size", size);
  auto alignment = alignment_of(info);
  if (!alignment) return std::move(alignment).error();
  const auto kinds = requested_kinds(info);
  if (!kinds) {
    auto memory = allocate_host(static_cast<size_t>(size), *alignment, true);
    if (!memory) return std::move(memory).error();
    *static_cast<void**>(baseptr) = *memory;
    return {};
  }
  auto chosen = kinds->first([&](const device::AllocationKinds::Entry& entry) -> Status {
    const device::MemoryKind kind = entry.kind;
    const bool system = entry.text == "system";
    if (kind == device::MemoryKind::host) {
      auto memory = allocate_host(static_cast<size_t>(size), *alignment, !system);
      if (!memory) return std::move(memory).error();
      *static_cast<void**>(baseptr) = *memory;
      return {};
    }
    auto made = device::Allocation::create(kind, static_cast<size_t>(size));
    if (!made) return std::move(made).error();
    if (made->memory().base % *alignment != 0)
      return Error(Errc::no_mem, "the driver's memory is not aligned to mpi_minimum_memory_alignment");
    *static_cast<void**>(baseptr) = made->data();
    void* const address = made->data();
    driver_memory().emplace(address, std::move(*made));
    return {};
  });
  return chosen ? Status() : Status(std::move(chosen).error());
}

Status Free_mem(void* base) {
  if (mapped_memory().erase(base) != 0) {
    g_instance->remote_memory().rma().free(static_cast<std::byte*>(base));
    return {};
  }
  if (driver_memory().erase(base) != 0) return {};
  std::free(base);
  return {};
}

}  // namespace weft::api::impl
