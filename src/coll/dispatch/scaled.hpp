// SPDX-License-Identifier: BSD-3-Clause
// ScaledReduction: a reduction whose operation scales (core::Op::Scaling), as a sum with a step before or
// after. An average of types with few bits is divided before the sum, which could exceed their largest
// number. Threading: under the instance lock.
#pragma once
#include <memory>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "core/op.hpp"
#include "device/pool.hpp"

namespace weft::coll {

class ScaledReduction {
 public:
  /// Precondition: call.scaled. Errc::no_mem, Errc::unsupported: no memory for the scaled terms.
  [[nodiscard]] static Result<std::unique_ptr<ScaledReduction>> create(const Call& call);
  ScaledReduction(const ScaledReduction&) = delete;
  ScaledReduction& operator=(const ScaledReduction&) = delete;
  ~ScaledReduction();

  /// The sum. Its operands are valid as long as this object.
  [[nodiscard]] const Call& sum() const { return sum_; }
  /// Scales the terms of this process. Call it before each sum.
  [[nodiscard]] Status before();
  /// Scales the result of this process. Call it after each sum.
  [[nodiscard]] Status after();

 private:
  explicit ScaledReduction(const Call& call);
  /// Chooses the memory of the scaled terms: the receive buffer if it has the size, else temporary memory.
  [[nodiscard]] Status place_terms();
  [[nodiscard]] Status scale(const Operand& from, const Operand& to, int64_t count) const;
  [[nodiscard]] Status scale_on_host(const Operand& from, const Operand& to, int64_t count) const;
  /// Returns the factor in host memory; `store` has Op::kMaxFactorBytes bytes.
  [[nodiscard]] Result<const void*> host_factor(std::byte* store) const;

  core::Op& op_;
  Call sum_;
  Operand terms_;         // unscaled
  uint32_t divisor_ = 0;  // 0: a factor
  bool scales_terms_ = false;
  std::unique_ptr<std::byte[]> host_;
  device::Workspace workspace_;
};

}  // namespace weft::coll
