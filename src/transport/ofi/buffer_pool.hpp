// SPDX-License-Identifier: BSD-3-Clause
// BufferPool: message buffers in slabs, registered if the provider requires it; grows on demand.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/ofi/endpoint.hpp"
#include "transport/transport.hpp"

namespace weft::transport::ofi {

/// Context of a completion. The provider's memory comes first, as libfabric requires.
struct Operation {
  enum class Kind : uint8_t { receive, send, read, heartbeat };
  abi::OperationContext context{};
  Kind kind;
};

struct MessageBuffer : Operation {
  std::byte* data = nullptr;
  void* desc = nullptr;
  Peer peer = 0;      ///< of a send
  uint32_t size = 0;  ///< of a send, in bytes
  uint64_t tag = 0;
};

class BufferPool {
 public:
  BufferPool(Endpoint& endpoint, Operation::Kind kind, size_t bytes)
      : endpoint_(endpoint), kind_(kind), bytes_(bytes) {}
  /// Returns a free buffer; nullptr: failure() is set.
  [[nodiscard]] MessageBuffer* acquire() {
    if (free_.empty() && !grow()) return nullptr;
    MessageBuffer* message = free_.back();
    free_.pop_back();
    return message;
  }
  void release(MessageBuffer* message) { free_.push_back(message); }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] size_t in_use() const { return allocated_ - free_.size(); }
  /// Call before the endpoint is closed; the memory is freed with this object.
  void deregister() {
    for (auto& slab : slabs_) slab->mr.reset();
  }
  /// Error of the last acquire() that returned nullptr.
  [[nodiscard]] const Status& failure() const { return failure_; }

 private:
  struct Slab {
    struct Free {
      void operator()(std::byte* memory) const;
    };
    std::unique_ptr<std::byte, Free> memory;
    std::vector<MessageBuffer> messages;
    Object<abi::Mr> mr;  // destroyed before the memory
  };
  bool grow();

  Endpoint& endpoint_;
  const Operation::Kind kind_;
  const size_t bytes_;
  size_t allocated_ = 0;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::vector<MessageBuffer*> free_;  // LIFO: the most recently used buffer is in the cache
  Status failure_;
};

}  // namespace weft::transport::ofi
