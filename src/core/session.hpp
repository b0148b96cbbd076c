// SPDX-License-Identifier: BSD-3-Clause
// Session: one view of the instance, opened by MPI_Session_init (MPI 5.0 section 11.3). Groups from its
// process sets retain it, and so do their communicators.
// Threading: under the instance lock.
#pragma once
#include "base/slab.hpp"
#include "core/errhandler.hpp"
#include "core/info.hpp"
#include "core/reference.hpp"

namespace weft::core {

class Instance;

class Session final : public Counted {
 public:
  explicit Session(Instance& owner) : instance(owner) {}
  static Session* create(Instance& owner) { return slab().create(owner); }
  static Slab<Session>& slab() {
    static Slab<Session> sessions(size_t{1} << 16);
    return sessions;
  }

  Instance& instance;
  Ref<Errhandler> errhandler;
  Ref<Info> info;  ///< hints in use

 private:
  void destroy() override { slab().destroy(this); }
};

}  // namespace weft::core
