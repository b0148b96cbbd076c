// SPDX-License-Identifier: BSD-3-Clause
#include "api/caller.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <cstring>

namespace weft::api {

namespace {

/// The libraries on the stack: this library, and the first other library but translations of another MPI's
/// C interface (src/compat).
struct Walk {
  const void* own = nullptr;
  bool fortran = false;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* state) {
  auto& walk = *static_cast<Walk*>(state);
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(_Unwind_GetIP(context)), &info) == 0) return _URC_END_OF_STACK;
  if (walk.own == nullptr) walk.own = info.dli_fbase;
  if (info.dli_fbase == walk.own) return _URC_NO_REASON;
  if (info.dli_fname == nullptr) return _URC_END_OF_STACK;
  if (std::strstr(info.dli_fname, "/compat/libmpi.so.") != nullptr) return _URC_NO_REASON;
  for (const char* library : {"/libmpi_abi_fortran.", "/compat/libmpi_mpifh.", "/compat/libmpifort."})
    if (std::strstr(info.dli_fname, library) != nullptr) walk.fortran = true;
  return _URC_END_OF_STACK;
}

bool called_by_fortran() {
  Walk walk;
  _Unwind_Backtrace(visit, &walk);
  return walk.fortran;
}

}  // namespace

std::string element_name(const char* name, size_t index) {
  if (called_by_fortran()) return std::string(name) + "(" + std::to_string(index + 1) + ")";
  return std::string(name) + "[" + std::to_string(index) + "]";
}

}  // namespace weft::api
