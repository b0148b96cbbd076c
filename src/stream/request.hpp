// SPDX-License-Identifier: BSD-3-Clause
// Request: a nonblocking enqueued operation. Only MPIX_Wait_enqueue ends it, since the host does not see its
// completion. Threading: under the instance lock.
#pragma once
#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"

namespace weft::stream {

class Request final : public core::Request {
 public:
  explicit Request(core::Communicator& communicator) : core::Request(Kind::enqueued) {
    comm = &communicator;
    communicator.retain();
  }
  ~Request() override { comm->release(); }
  void destroy() override { slab().destroy(this); }
  static Slab<Request>& slab();
};

}  // namespace weft::stream
