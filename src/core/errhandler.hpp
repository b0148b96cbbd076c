// SPDX-License-Identifier: BSD-3-Clause
// Errhandler: predefined and user error handlers (MPI 5.0 section 9.3).
#pragma once
#include <cstdint>

#include "base/slab.hpp"
#include "core/reference.hpp"

namespace weft::core {

class Errhandler final : public Counted {
 public:
  enum class Kind : uint8_t { fatal, abort, ret, user };
  enum class Target : uint8_t { any, communicator, window, file, session };
  /// User functions take (handle*, error code*, ...); all handles have the size of a pointer.
  using Function = void (*)(void* handle, int* code, ...);

  Errhandler(Kind handler_kind, Target handler_target, Function user_function)
      : kind(handler_kind), target(handler_target), function(user_function) {}
  static Errhandler* create(Target target, Function function);
  /// Predefined handlers; never destroyed.
  static Errhandler* fatal();
  static Errhandler* abort();
  static Errhandler* ret();
  static Slab<Errhandler>& slab();

  const Kind kind;
  const Target target;
  const Function function;

 private:
  void destroy() override;
};

}  // namespace weft::core
