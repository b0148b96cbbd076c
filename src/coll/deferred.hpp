// SPDX-License-Identifier: BSD-3-Clause
// Deferred: a call that is told later which way it goes (coll/gpu/agenda.hpp). Threading: under the instance
// lock.
#pragma once
#include "base/result.hpp"

namespace weft::coll::gpu {

class Agenda;
struct Resolved;

class Deferred {
 public:
  /// Messages do it: now.
  virtual void go_by_messages() = 0;
  /// Kernels have done it, or it failed.
  virtual void end(Status outcome) = 0;

 protected:
  ~Deferred() = default;
};

}  // namespace weft::coll::gpu
