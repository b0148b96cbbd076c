// SPDX-License-Identifier: BSD-3-Clause
// Errhandler: the three predefined handlers and user handlers.
#include "core/errhandler.hpp"

namespace weft::core {

Errhandler* Errhandler::create(Target target, Function function) {
  return slab().create(Kind::user, target, function);
}

Errhandler* Errhandler::fatal() {
  static Errhandler handler(Kind::fatal, Target::any, nullptr);
  return &handler;
}

Errhandler* Errhandler::abort() {
  static Errhandler handler(Kind::abort, Target::any, nullptr);
  return &handler;
}

Errhandler* Errhandler::ret() {
  static Errhandler handler(Kind::ret, Target::any, nullptr);
  return &handler;
}

Slab<Errhandler>& Errhandler::slab() {
  static Slab<Errhandler> handlers;
  return handlers;
}

void Errhandler::destroy() {
  if (kind == Kind::user) slab().destroy(this);  // predefined handlers are static
}

}  // namespace weft::core
