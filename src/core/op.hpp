// SPDX-License-Identifier: BSD-3-Clause
// Op: a predefined or user-defined reduction operation (MPI 5.0 section 6.9), or one of weft.h that scales: a
// sum whose terms are multiplied before, or whose result is divided after.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/slab.hpp"
#include "core/reference.hpp"
#include "datatype/datatype.hpp"
#include "datatype/reduce.hpp"
#include "device/memory.hpp"

namespace weft::core {

class Instance;

class Op final : public Counted {
 public:
  using Function = void (*)(void* in, void* inout, int* count, void** datatype_handle);
  using LargeFunction = void (*)(void* in, void* inout, int64_t* count, void** datatype_handle);

  /// average: the sum divided by the number of processes. factor: each term times a number of its process.
  enum class Scaling : uint8_t { none, average, factor };
  static constexpr size_t kMaxFactorBytes = 32;

  /// Returns whether the operation combines two elements of this type; false for operations that scale.
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
  /// A sum of terms that are multiplied by an element of a predefined type of numbers. Host memory is copied
  /// now, GPU memory is read at the start of each operation.
  static Op* create_premul_sum(const void* factor, const device::Memory& memory, datatype::Datatype& type);
  /// Returns the predefined operation of an ABI handle value (MPI_SUM = 0x21, ...), or nullptr.
  static Op* predefined(uintptr_t handle_value);
  static Slab<Op>& slab();
  /// Whether it is a sum for numbers of this type that scales.
  [[nodiscard]] bool scales(const datatype::Datatype& type) const;
  /// Whether the program has created it, and frees it.
  [[nodiscard]] bool created() const { return user || scaling == Scaling::factor; }

  bool user = false;
  bool commutative = true;
  datatype::ReduceOp kind{};  ///< valid when !user; the sum for operations that scale
  Scaling scaling = Scaling::none;
  Function function = nullptr;
  LargeFunction large_function = nullptr;
  std::string name;
  uintptr_t handle = 0;  ///< the MPI_Op value: the object's address, or a predefined handle value
  datatype::Datatype* factor_type = nullptr;  ///< Scaling::factor: retained
  std::byte factor[kMaxFactorBytes]{};        ///< the factor, unless it is in GPU memory
  const void* factor_on_device = nullptr;
  device::Memory factor_memory;

 private:
  void destroy() override;
  void apply_user(const void* in, void* inout, int64_t count, const datatype::Datatype& type) const;
  Instance* instance_ = nullptr;  // user functions run without its lock
};

}  // namespace weft::core
