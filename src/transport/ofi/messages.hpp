// SPDX-License-Identifier: BSD-3-Clause
// The buffers of messages: slabs that are registered where the provider wants it, for sends a bounded number
// that grows on demand, for receives a pool that is posted at start.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/ofi/endpoint.hpp"
#include "transport/transport.hpp"

namespace weft::transport::ofi {

/// What a completion names. The provider's room comes first, as libfabric demands.
struct Operation {
  enum class Kind : uint8_t { receive, send, read, beat };
  abi::ContextRoom room{};
  Kind kind;
};

struct Message : Operation {
  std::byte* data = nullptr;
  void* desc = nullptr;
  Peer peer = 0;      ///< of a send
  uint32_t size = 0;  ///< of a send, in bytes
  uint64_t tag = 0;
};

class Messages {
 public:
  Messages(Endpoint& endpoint, Operation::Kind kind, size_t bytes, size_t most)
      : endpoint_(endpoint), kind_(kind), bytes_(bytes), most_(most) {}
  /// nullptr: all are in use.
  [[nodiscard]] Message* take() {
    if (free_.empty() && !grow()) return nullptr;
    Message* message = free_.back();
    free_.pop_back();
    return message;
  }
  void give_back(Message* message) { free_.push_back(message); }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] size_t in_use() const { return made_ - free_.size(); }
  /// Before the endpoint is closed; the memory stays until this object goes.
  void deregister() {
    for (auto& slab : slabs_) slab->mr.reset();
  }
  /// Why take() found nothing, if it was not the limit.
  [[nodiscard]] const Status& failure() const { return failure_; }

 private:
  struct Slab {
    struct Free {
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> memory;
    std::vector<Message> messages;
    Object<abi::Mr> mr;  // gone before the memory
  };
  bool grow();

  Endpoint& endpoint_;
  const Operation::Kind kind_;
  const size_t bytes_, most_;
  size_t made_ = 0;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<Message*> free_;  // the one used last is taken first: it is in the cache
  Status failure_;
};

}  // namespace weft::transport::ofi
