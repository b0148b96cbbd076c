// SPDX-License-Identifier: BSD-3-Clause
// Active messages: the first byte of a message is the id of its handler. All layers register their handlers
// in the one HandlerTable of the process and send through its Sender. Threading: as transport.hpp.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/assert.hpp"
#include "transport/transport.hpp"

namespace weft::transport::am {

using HandlerId = uint8_t;
/// First ids of the layers' blocks.
inline constexpr HandlerId kP2pHandlers = 0, kMemoryHandlers = 32, kRmaHandlers = 48, kSpawnHandlers = 64,
                           kFailureHandlers = 80, kStreamHandlers = 96;

/// Smallest message: id and padding.
inline constexpr size_t kMinMessage = 8;

/// Dispatches incoming messages. Messages with an unknown id, and messages smaller than their handler's
/// header, are dropped and counted (am.unknown_handlers, am.truncated_messages).
class HandlerTable final : public Receiver {
 public:
  /// `message` is 8-byte aligned, valid during the call only, and has at least the registered size.
  using Function = void (*)(void* owner, Peer source, const std::byte* message, size_t size);

  HandlerTable();
  HandlerTable(const HandlerTable&) = delete;
  HandlerTable& operator=(const HandlerTable&) = delete;

  /// Registers the handler of an unused id. `min_size`: size of the header in bytes, kMinMessage or more.
  void add(HandlerId id, size_t min_size, Function function, void* owner);
  /// The same for a captureless function object (Owner&, Peer, const Header&, size_t size).
  template <class Header, class Owner, class F>
  void add(HandlerId id, Owner& owner, F) {
    add(
        id, sizeof(Header),
        [](void* object, Peer source, const std::byte* message, size_t size) {
          F{}(*static_cast<Owner*>(object), source, *reinterpret_cast<const Header*>(message), size);
        },
        &owner);
  }
  void remove(HandlerId id);
  [[nodiscard]] bool registered(HandlerId id) const { return handlers_[id].owner != nullptr; }
  /// `function` is called by lost().
  void set_lost(std::function<void(Peer, const Error&)> function) { lost_ = std::move(function); }
  /// `function` is called by left().
  void set_left(std::function<void(Peer)> function) { left_ = std::move(function); }
  /// The functions are called by find() and unknown_source().
  void set_other_jobs(std::function<Peer(uint32_t, uint32_t)> find,
                      std::function<bool(Peer, const std::byte*, size_t)> unknown_source) {
    find_ = std::move(find);
    unknown_source_ = std::move(unknown_source);
  }

  void deliver(Peer source, const std::byte* message, size_t size) override {
    if (size < kMinMessage) [[unlikely]]
      return drop_truncated();
    const Handler& handler = handlers_[static_cast<HandlerId>(message[0])];
    if (size < handler.min_size) [[unlikely]]
      return drop_truncated();
    handler.function(handler.owner, source, message, size);
  }
  void lost(Peer peer, const Error& why) override {
    if (lost_) lost_(peer, why);
  }
  void left(Peer peer) override {
    if (left_) left_(peer);
  }
  Peer find(uint32_t job_tag, uint32_t rank) override { return find_ ? find_(job_tag, rank) : kNoPeer; }
  [[nodiscard]] bool unknown_source(Peer known, const std::byte* message, size_t size) override {
    return unknown_source_ && unknown_source_(known, message, size);
  }

 private:
  struct Handler {
    Function function;
    void* owner;  // null: unused id; `function` counts the message
    size_t min_size;
  };
  static void drop_truncated();
  std::array<Handler, size_t{UINT8_MAX} + 1> handlers_;
  std::function<void(Peer, const Error&)> lost_;
  std::function<void(Peer)> left_;
  std::function<Peer(uint32_t, uint32_t)> find_;
  std::function<bool(Peer, const std::byte*, size_t)> unknown_source_;
};

/// Sends active messages to any other process. Messages to one peer arrive in order; messages to a lost peer
/// are dropped.
class Sender {
 public:
  static constexpr size_t kMaxPosted = 384;  ///< largest message of post(), in bytes
  /// Copies a message and sends it, at once or when the transport has capacity again.
  virtual void post(Peer to, const void* message, size_t size) = 0;
  /// As in Transport. nullptr also while posted messages wait for capacity, and for a lost peer.
  [[nodiscard]] virtual std::byte* reserve(Peer to, size_t size) = 0;
  virtual void commit(Peer to, size_t size) = 0;
  [[nodiscard]] virtual size_t max_message(Peer to) = 0;

 protected:
  ~Sender() = default;
};

}  // namespace weft::transport::am
