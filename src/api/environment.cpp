// SPDX-License-Identifier: BSD-3-Clause
// The environment: versions, the ABI, the host, addresses, memory (MPI 5.0 sections 4.1.5, 9.1, 9.2 and 20).
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "api/check.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"

namespace weft::api::impl {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector registers

/// A power of two of at least kAlignment from the hint mpi_minimum_memory_alignment.
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

/// What this library was built with; the sizes in bytes of types that MPI's datatypes stand for.
struct Size {
  const char* key;
  const char* bytes;
};
constexpr Size kAbiSizes[] = {{"mpi_aint_size", "8"}, {"mpi_count_size", "8"}, {"mpi_offset_size", "8"}};
static_assert(sizeof(MPI_Aint) == 8 && sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8);
constexpr Size kFortranSizes[] = {{"mpi_logical_size", "4"},
                                  {"mpi_integer_size", "4"},
                                  {"mpi_real_size", "4"},
                                  {"mpi_double_precision_size", "8"}};

/// What a Fortran layer has told (MPI 5.0 section 20.5); it may do so before MPI_Init.
struct Fortran {
  core::Ref<core::Info> info;
  int logical_size = 0;  ///< 0: not told
  int64_t logical_true = 0, logical_false = 0;
};
Fortran& fortran() {
  static auto* const told = new Fortran;  // outlives static destructors that call MPI
  return *told;
}

/// A Fortran LOGICAL of this many bytes.
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
  copy_text("Weft " WEFT_VERSION " (MPI 5.0 standard ABI)", version, MPI_MAX_LIBRARY_VERSION_STRING,
            resultlen);
  return {};
}

Status Get_processor_name(char* name, int* resultlen) {
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  if (gethostname(host, sizeof host - 1) != 0)
    return Error(Errc::other, "the host's name cannot be had (gethostname failed)");
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
    for (const Size& size : kAbiSizes) made->set(size.key, size.bytes);
  return publish_new(made, info);
}

Status Abi_get_fortran_info(MPI_Info* info) {
  if (!fortran().info) {
    *info = MPI_INFO_NULL;
    return {};
  }
  return publish_new(core::Info::duplicate(*fortran().info), info);
}

Status Abi_set_fortran_info(core::Info* info) {
  if (info == nullptr) return Error(Errc::info, "info is MPI_INFO_NULL: pass the sizes of Fortran's types");
  if (fortran().info) return Error(Errc::abi, "the sizes of Fortran's types have been told already");
  for (const Size& size : kFortranSizes) {
    const auto told = info->get(size.key);
    if (told && *told != size.bytes)
      return Error(Errc::abi, std::string(size.key) + " = " + std::string(*told) +
                                  ": this library has only " + size.bytes +
                                  " (compile the Fortran code without -i8 or -r8)");
  }
  fortran().info = core::Ref<core::Info>(core::Info::duplicate(*info));
  return {};
}

Status Abi_get_fortran_booleans(int logical_size, void* logical_true, void* logical_false, int* is_set) {
  const Fortran& told = fortran();
  *is_set = told.logical_size != 0;
  if (told.logical_size == 0) return {};
  if (logical_size != told.logical_size)
    return Error(Errc::arg, "logical_size = " + std::to_string(logical_size) + ": the values told have " +
                                std::to_string(told.logical_size) + " bytes");
  write_logical(logical_size, logical_true, told.logical_true);
  write_logical(logical_size, logical_false, told.logical_false);
  return {};
}

Status Abi_set_fortran_booleans(int logical_size, void* logical_true, void* logical_false) {
  if (fortran().logical_size != 0) return Error(Errc::abi, "Fortran's logical values have been told already");
  auto yes = read_logical(logical_size, logical_true), no = read_logical(logical_size, logical_false);
  if (!yes) return std::move(yes).error();
  if (*yes != 1 || *no != 0)
    return Error(Errc::abi, ".TRUE. = " + std::to_string(*yes) + ", .FALSE. = " + std::to_string(*no) +
                                ": the logical operations of this library give 1 and 0 only");
  fortran().logical_size = logical_size;
  fortran().logical_true = *yes;
  fortran().logical_false = *no;
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
  void* memory = nullptr;
  if (posix_memalign(&memory, *alignment, size == 0 ? 1 : static_cast<size_t>(size)) != 0)
    return Error(Errc::no_mem, "size = " + std::to_string(size) + " bytes cannot be had: free some memory");
  *static_cast<void**>(baseptr) = memory;
  return {};
}

Status Free_mem(void* base) {
  std::free(base);
  return {};
}

}  // namespace weft::api::impl
