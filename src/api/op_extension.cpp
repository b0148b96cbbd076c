// SPDX-License-Identifier: BSD-3-Clause
// Reduction operations of weft.h that scale.
#include <mpi.h>
#include <weft.h>

#include <string>
#include <utility>

#include "api/check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/objects.hpp"
#include "datatype/scale.hpp"
#include "device/memory.hpp"

namespace weft::api {
namespace {

Status create_premul_sum(const void* scalar, MPI_Datatype handle, MPI_Op* op) {
  datatype::Datatype* type = to_datatype(handle);
  if (type == nullptr) return bad_handle(HandleKind::datatype, "datatype", handle);
  if (scalar == nullptr)
    return Error(Errc::arg, "scalar is a null pointer: pass the address of an element of datatype");
  if (op == nullptr) return Error(Errc::arg, "op is a null pointer: pass the address of an MPI_Op");
  const auto basic = type->basic();
  if (!type->predefined() || !basic || !datatype::is_number(datatype::traits_of(*basic).group))
    return Error(Errc::type, "datatype = " + (type->name().empty() ? "a derived datatype" : type->name()) +
                                 " is no predefined type of numbers: use MPI_FLOAT, for instance");
  static_assert(sizeof(element::Complex<element::Float128>) <= core::Op::kMaxFactorBytes);
  return return_new_object(core::Op::create_premul_sum(scalar, device::classify(scalar), *type), op);
}

}  // namespace
}  // namespace weft::api

extern "C" {

WEFT_EXPORT int PMPIX_Op_create_premul_sum(const void* scalar, MPI_Datatype datatype, MPI_Op* op) {
  using namespace weft::api;
  EntryPoint entry("MPIX_Op_create_premul_sum");
  return guarded(entry, [&] { return entry.finish(create_premul_sum(scalar, datatype, op)); });
}
WEFT_ALIAS(MPIX_Op_create_premul_sum, (const void* scalar, MPI_Datatype datatype, MPI_Op* op));

}  // extern "C"
