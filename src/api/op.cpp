// SPDX-License-Identifier: BSD-3-Clause
// Reduction operations (MPI 5.0 section 6.9.5).
#include "core/op.hpp"

#include "api/impl.hpp"
#include "api/objects.hpp"

namespace weft::api::impl {

Status Op_create(UserFunction function, int commute, MPI_Op* op) {
  if (function.large)
    return return_new_object(
        core::Op::create_large(*g_instance, reinterpret_cast<core::Op::LargeFunction>(function.function),
                               commute != 0),
        op);
  return return_new_object(
      core::Op::create(*g_instance, reinterpret_cast<core::Op::Function>(function.function), commute != 0),
      op);
}

Status Op_free(MPI_Op* handle) {
  core::Op& op = *to_op(*handle);
  if (!op.created())
    return Error(Errc::op, "op is the predefined " + op.name +
                               ": only operations that the program has created can be freed");
  if (!op.has_handle()) return bad_handle(HandleKind::op, "op", *handle);
  op.close_handle();
  *handle = MPI_OP_NULL;
  return {};
}

Status Op_commutative(core::Op& op, int* commute) {
  *commute = op.commutative;
  return {};
}

}  // namespace weft::api::impl
