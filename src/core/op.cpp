// SPDX-License-Identifier: BSD-3-Clause
// Op: table of predefined operations; calls of user functions.
#include "core/op.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/instance.hpp"
#include "datatype/scale.hpp"

namespace weft::core {
namespace {

using datatype::ReduceOp;

struct Predefined {
  uintptr_t handle;  // MPI 5.0 section 20.3 (ABI values)
  ReduceOp kind;
  const char* name;
  bool commutative = true;
  Op::Scaling scaling = Op::Scaling::none;
};

constexpr Predefined kPredefined[] = {
    {0x21, ReduceOp::sum, "MPI_SUM"},
    {0x22, ReduceOp::min, "MPI_MIN"},
    {0x23, ReduceOp::max, "MPI_MAX"},
    {0x24, ReduceOp::prod, "MPI_PROD"},
    {0x28, ReduceOp::band, "MPI_BAND"},
    {0x29, ReduceOp::bor, "MPI_BOR"},
    {0x2a, ReduceOp::bxor, "MPI_BXOR"},
    {0x30, ReduceOp::land, "MPI_LAND"},
    {0x31, ReduceOp::lor, "MPI_LOR"},
    {0x32, ReduceOp::lxor, "MPI_LXOR"},
    {0x38, ReduceOp::minloc, "MPI_MINLOC"},
    {0x39, ReduceOp::maxloc, "MPI_MAXLOC"},
    {0x3c, ReduceOp::replace, "MPI_REPLACE", false},
    {0x3d, ReduceOp::no_op, "MPI_NO_OP", false},
    {0x3e, ReduceOp::sum, "MPIX_AVG", true, Op::Scaling::average},  // of weft.h
};
constexpr uintptr_t kFirst = 0x20, kLast = 0x3e;
using Table = std::array<Op*, kLast - kFirst + 1>;

}  // namespace

bool Op::allows(const datatype::Datatype& type) const {
  if (user) return true;
  if (!type.predefined() || scaling != Scaling::none) return false;
  const auto basic = type.basic();
  return basic && datatype::reduce_function(kind, *basic) != nullptr;
}

bool Op::scales(const datatype::Datatype& type) const {
  if (scaling == Scaling::none || !type.predefined()) return false;
  const auto basic = type.basic();
  return basic && datatype::is_number(datatype::traits_of(*basic).group) &&
         (scaling == Scaling::average || basic == factor_type->basic());
}

void Op::combine(const void* left, const void* right, void* result, int64_t count,
                 const datatype::Datatype& type) const {
  if (count == 0) return;
  if (!user)
    return datatype::reduce_function(kind, *type.basic())(left, right, result, static_cast<size_t>(count));
  if (result != right) datatype::copy(right, count, type, result, count, type);
  apply_user(left, result, count, type);
}

void Op::apply_user(const void* in, void* inout, int64_t count, const datatype::Datatype& type) const {
  // The C signature is not const-correct; the function must not change `in` (MPI 5.0 section 6.9.5).
  auto* source = static_cast<char*>(const_cast<void*>(in));
  auto* target = static_cast<char*>(inout);
  auto* handle = reinterpret_cast<void*>(type.handle());
  instance_->unlocked([&] {
    if (large_function != nullptr) {
      large_function(source, target, &count, &handle);
      return;
    }
    while (count > 0) {
      int part = static_cast<int>(std::min<int64_t>(count, std::numeric_limits<int>::max()));
      count -= part;
      const int64_t bytes = part * type.extent();
      function(source, target, &part, &handle);
      source += bytes;
      target += bytes;
    }
  });
}

Op* Op::create(Instance& instance, Function function, bool commutative) {
  Op* op = slab().create();
  if (op == nullptr) return nullptr;
  op->user = true;
  op->commutative = commutative;
  op->function = function;
  op->instance_ = &instance;
  op->handle = reinterpret_cast<uintptr_t>(op);
  return op;
}

Op* Op::create_large(Instance& instance, LargeFunction function, bool commutative) {
  Op* op = create(instance, nullptr, commutative);
  if (op != nullptr) op->large_function = function;
  return op;
}

Op* Op::create_premul_sum(const void* factor, const device::Memory& memory, datatype::Datatype& type) {
  Op* op = slab().create();
  if (op == nullptr) return nullptr;
  op->scaling = Scaling::factor;
  op->kind = ReduceOp::sum;
  op->name = "MPIX_PREMUL_SUM";
  op->handle = reinterpret_cast<uintptr_t>(op);
  type.retain();
  op->factor_type = &type;
  op->factor_memory = memory;
  if (memory.on_device())
    op->factor_on_device = factor;
  else
    std::memcpy(op->factor, factor, static_cast<size_t>(type.size()));
  return op;
}

Op* Op::predefined(uintptr_t handle_value) {
  static const Table table = [] {
    Table made{};
    for (const Predefined& entry : kPredefined) {
      Op* op = made[entry.handle - kFirst] = new Op;  // never destroyed
      op->kind = entry.kind;
      op->scaling = entry.scaling;
      op->commutative = entry.commutative;
      op->name = entry.name;
      op->handle = entry.handle;
    }
    return made;
  }();
  return handle_value >= kFirst && handle_value <= kLast ? table[handle_value - kFirst] : nullptr;
}

Slab<Op>& Op::slab() {
  static Slab<Op> ops;
  return ops;
}

void Op::destroy() {
  if (factor_type != nullptr) factor_type->release();
  if (created()) slab().destroy(this);
}

}  // namespace weft::core
