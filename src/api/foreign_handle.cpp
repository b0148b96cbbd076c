// SPDX-License-Identifier: BSD-3-Clause
#include "api/foreign_handle.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <string_view>

namespace weft::api {

namespace {

constexpr const char* kRemedy =
    ". Compile all parts of the program with the mpi.h of one MPI: for mpi4py, pip install --no-binary "
    "mpi4py mpi4py with "
    "Weft's mpicc on the PATH";

/// Kind of an object in bits 26 to 29 of a handle of MPICH; null: there is none.
const char* mpich_noun(uint32_t handle) {
  static constexpr const char* nouns[16] = {
      nullptr,        "a communicator", "a group",   "a datatype", "a file", "an error handler",
      "an operation", "an info object", "a window",  nullptr,      nullptr,  "a request",
      "a message",    nullptr,          "a session", nullptr};
  return nouns[handle >> 26 & 15];
}

/// Returns the kind of a handle of MPICH, a 32-bit integer whose two highest bits are not zero, extended by
/// zeros or by its sign; null: the value is none. Addresses of objects have other high bits.
const char* mpich_kind(uintptr_t value) {
  const auto low = static_cast<uint32_t>(value);
  const uintptr_t high = value >> 32;
  const bool extended = high == 0 || (high == 0xffffffff && low >> 31 != 0);
  return extended && low >> 30 != 0 ? mpich_noun(low) : nullptr;
}

/// Returns whether half of a value may be one of the first handles of MPICH of a kind. A caller that passes a
/// handle as an int on the stack leaves the other half undefined.
bool is_low_half(uint32_t low, std::string_view wanted) {
  constexpr uint32_t kIndices = 1 << 26, kFirstIndices = 1 << 12;
  const char* noun = mpich_noun(low);
  return low >> 30 != 0 && low % kIndices < kFirstIndices && noun != nullptr && noun == wanted;
}

/// Returns whether the value is the address of a predefined object of Open MPI, such as ompi_mpi_comm_world.
bool is_of_openmpi(uintptr_t value) {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(value), &info) != 0 && info.dli_sname != nullptr &&
         std::string_view(info.dli_sname).starts_with("ompi_mpi_");
}

/// Returns the path of a loaded library of another MPI; empty: none.
std::string other_library(std::string_view name) {
  struct Search {
    std::string_view name;
    std::string path;
  } search{name, ""};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* state) {
        auto& wanted = *static_cast<Search*>(state);
        const std::string_view path = info->dlpi_name;
        if (path.substr(path.rfind('/') + 1).starts_with(wanted.name)) wanted.path = path;
        return wanted.path.empty() ? 0 : 1;
      },
      &search);
  return search.path;
}

std::string two_headers(const char* mpi, std::string_view library) {
  const std::string path = other_library(library);
  return std::string("a part of this program was compiled with ") + mpi + "'s mpi.h" +
         (path.empty() ? "" : " (its library is " + path + ")") + ", the caller with Weft's" + kRemedy;
}

std::string built_for(const char* mpi, std::string_view library) {
  return std::string(" of ") + mpi +
         "'s ABI, but this is a call of the standard ABI, of libmpi_abi.so.1: " + two_headers(mpi, library);
}

std::string built_for_standard(const char* mpi, const char* library) {
  return std::string(" is a handle of the standard ABI, of libmpi_abi.so.1, but this is a call of ") + mpi +
         "'s ABI, of " + library + ": the caller was compiled with " + mpi +
         "'s mpi.h, another part of this program with Weft's" + kRemedy;
}

}  // namespace

std::string describe_foreign_handle(uintptr_t value, std::string_view wanted) {
  if (value == kStandardInMpich) return built_for_standard("MPICH", "libmpi.so.12");
  if (value == kStandardInOpenMpi) return built_for_standard("Open MPI", "libmpi.so.40");
  if (value == kInvalidHandle)
    return " was freed, or belongs to another ABI than that of this call (lib/compat): a part of this "
           "program was compiled "
           "with the mpi.h of another MPI than the caller" +
           std::string(kRemedy);
  char text[24];
  std::snprintf(text, sizeof text, " = 0x%zx", static_cast<size_t>(value));
  if (const char* noun = mpich_kind(value); noun != nullptr) {
    if (noun == wanted) return text + (" is " + std::string(noun)) + built_for("MPICH", "libmpi.so.12");
    return text + (" is not " + std::string(wanted)) + "; it may be " + noun + " of MPICH's ABI, if " +
           two_headers("MPICH", "libmpi.so.12");
  }
  if (const auto low = static_cast<uint32_t>(value); is_low_half(low, wanted)) {
    char half[16];
    std::snprintf(half, sizeof half, "0x%x", low);
    return text + (" is not " + std::string(wanted)) + "; its lower half, " + half + ", may be " +
           std::string(wanted) + " of MPICH's ABI, if " + two_headers("MPICH", "libmpi.so.12");
  }
  if (is_of_openmpi(value)) return text + std::string(" is a handle") + built_for("Open MPI", "libmpi.so.40");
  return "";
}

}  // namespace weft::api
