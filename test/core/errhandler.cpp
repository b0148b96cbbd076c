// SPDX-License-Identifier: BSD-3-Clause
// Errhandler: predefined handlers survive every release, user handlers are destroyed by the last one.
#include "core/errhandler.hpp"

#include <gtest/gtest.h>

namespace weft::core {
namespace {

void handler(void*, int*, ...) {}

TEST(Errhandler, PredefinedStay) {
  for (Errhandler* predefined : {Errhandler::fatal(), Errhandler::abort(), Errhandler::ret()}) {
    const Errhandler::Kind kind = predefined->kind;
    { const auto shared = Ref<Errhandler>::share(predefined); }
    EXPECT_EQ(predefined->kind, kind);
    EXPECT_EQ(predefined->references(), 1);
  }
  EXPECT_NE(Errhandler::fatal(), Errhandler::abort());
}

TEST(Errhandler, UsersAreCounted) {
  Errhandler* made = Errhandler::create(Errhandler::Target::communicator, handler);
  EXPECT_EQ(made->kind, Errhandler::Kind::user);
  EXPECT_EQ(made->function, &handler);
  {
    const auto kept = Ref<Errhandler>::share(made);
    made->release();  // MPI_Errhandler_free; a communicator still uses it
    EXPECT_EQ(Errhandler::slab().check(made), HandleState::live);
  }
  EXPECT_EQ(Errhandler::slab().check(made), HandleState::freed);
}

}  // namespace
}  // namespace weft::core
