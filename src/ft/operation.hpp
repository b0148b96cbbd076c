// SPDX-License-Identifier: BSD-3-Clause
// The requests of MPIX_Comm_iagree and MPIX_Comm_ishrink; the blocking functions wait for one.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "base/slab.hpp"
#include "core/request.hpp"
#include "ft/service.hpp"

namespace weft::ft {

class Operation final : public core::Request, private Service::Client {
 public:
  /// Agrees on the bitwise and of `*flag`, where the result is stored. Errc::proc_aborted, with a result all
  /// the same: a process has failed whose failure not all have acknowledged.
  [[nodiscard]] static Result<Operation*> agree(core::Communicator& comm, int* flag);
  /// Makes `*child`, a communicator of the processes that have not failed; usable once the request is
  /// complete.
  [[nodiscard]] static Result<Operation*> shrink(core::Communicator& comm, core::Communicator** child);

  /// Waits, destroys the request and returns its outcome.
  [[nodiscard]] Status finish_now();
  void destroy() override;
  [[nodiscard]] core::Operands operands() const override;
  static Slab<Operation>& slab();

  Operation(core::Communicator& communicator, int* flag, core::Communicator* child);
  ~Operation() override;

 private:
  void decided(const Value& decision, const Members& members) override;
  void begin();
  [[nodiscard]] Status settle(core::ContextId id, const Members& members);

  int* const flag_;                  // null: a shrink
  core::Communicator* const child_;  // of a shrink, referenced
  std::vector<uint32_t> failed_;     // of a shrink: agreed so far, ranks of Members in ascending order
};

[[nodiscard]] HandleState check_request(const void* handle);

}  // namespace weft::ft
