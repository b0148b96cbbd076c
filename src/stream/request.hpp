// SPDX-License-Identifier: BSD-3-Clause
// Request: a nonblocking operation that kernels execute in the order of a stream. Requests of enqueued
// operations end with MPIX_Wait_enqueue or MPI_Request_free, those of ordinary calls with any function of
// MPI. Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"
#include "datatype/datatype.hpp"
#include "p2p/message/transfer.hpp"
#include "stream/order/record.hpp"

namespace weft::stream {

/// One message of an ordinary call.
struct Part {
  enum class Kind : uint8_t { send, synchronous_send, receive };
  Kind kind;
  p2p::Buffer buffer;
  int peer, tag;  ///< p2p::kProcNull: nothing to do
};

class Request final : public core::Request {
 public:
  /// `is_ordinary`: of an ordinary call.
  explicit Request(core::Communicator& communicator, bool is_ordinary = false)
      : core::Request(Kind::enqueued), ordinary_(is_ordinary) {
    comm = &communicator;
    communicator.retain();
  }
  ~Request() override { comm->release(); }
  void destroy() override { slab().destroy(this); }
  /// Starts a persistent request of an ordinary call.
  Status start() override;
  /// Ends a receive of an ordinary call that no message has matched (MPI 5.0 section 3.8.4).
  Status cancel() override;
  [[nodiscard]] core::Operands operands() const override {
    core::Operands of_call;
    of_call.operation = name;
    return of_call;
  }
  static Slab<Request>& slab();
  [[nodiscard]] bool is_ordinary() const { return ordinary_; }
  /// An enqueued operation that the program frees: ends as that of an ordinary call.
  void become_ordinary() { ordinary_ = true; }
  /// The request of an ordinary call; null: `request` is of another kind.
  [[nodiscard]] static Request* ordinary(core::Request& request) {
    if (request.kind != Kind::enqueued) return nullptr;
    auto* const found = static_cast<Request*>(&request);
    return found->ordinary_ ? found : nullptr;
  }

  // Of requests of ordinary calls.
  const char* name = "";  ///< of the function that created it
  std::vector<Part> parts;
  /// A collective, which is enqueued when the request is waited for; null: the parts are the operation.
  std::unique_ptr<order::Call> collective;
  std::vector<core::Ref<datatype::Datatype>> types;  ///< persistent: of the parts
  uint64_t capture = 0;                              ///< id of the capture in which it was started; 0: none

 private:
  bool ordinary_;

 public:
  bool cancelling = false;  ///< a receive of an ordinary call that ends if no kernel has matched it
};

}  // namespace weft::stream
