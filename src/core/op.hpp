// SPDX-License-Identifier: BSD-3-Clause
// Op: a predefined or user-defined reduction operation (MPI 5.0 section 6.9).
#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/slab.hpp"
#include "core/reference.hpp"
#include "datatype/datatype.hpp"
#include "datatype/reduce.hpp"

namespace weft::core {

class Instance;

class Op final : public Counted {
 public:
  using Function = void (*)(void* in, void* inout, int* count, void** datatype_handle);
  using LargeFunction = void (*)(void* in, void* inout, int64_t* count, void** datatype_handle);

  /// Returns whether the operation is defined for elements of this type.
  [[nodiscard]] bool allows(const datatype::Datatype& type) const;
  /// inout[i] = in[i] op inout[i] on host memory laid out as `count` elements of `type`.
  /// Runs user functions with the instance lock released.
  void apply(const void* in, void* inout, int64_t count, const datatype::Datatype& type) const {
    combine(in, inout, inout, count, type);
  }
  /// result[i] = left[i] op right[i]; `result` is `right`, or overlaps neither operand.
  void combine(const void* left, const void* right, void* result, int64_t count,
               const datatype::Datatype& type) const;

  static Op* create(Instance& instance, Function function, bool commutative);
  static Op* create_large(Instance& instance, LargeFunction function, bool commutative);
  /// Returns the predefined operation of an ABI handle value (MPI_SUM = 0x21, ...), or nullptr.
  static Op* predefined(uintptr_t handle_value);
  static Slab<Op>& slab();

  bool user = false;
  bool commutative = true;
  datatype::ReduceOp kind{};  ///< valid when !user
  Function function = nullptr;
  LargeFunction large_function = nullptr;
  std::string name;
  uintptr_t handle = 0;  ///< the MPI_Op value: the object's address, or a predefined handle value

 private:
  void destroy() override;
  void apply_user(const void* in, void* inout, int64_t count, const datatype::Datatype& type) const;
  Instance* instance_ = nullptr;  // user functions run without its lock
};

}  // namespace weft::core
