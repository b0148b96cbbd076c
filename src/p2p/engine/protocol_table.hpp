// SPDX-License-Identifier: BSD-3-Clause
// ProtocolTable: all protocols, and the selection among them. Threading: constant.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "p2p/engine/protocol.hpp"

namespace weft::p2p {

class ProtocolTable {
 public:
  /// The order of `protocols` is part of the wire format: a CTS names a protocol by its index. It decides
  /// between protocols of equal cost, and, of equal copies, which one appends to an RTS.
  explicit ProtocolTable(std::span<const Protocol* const> protocols);

  [[nodiscard]] std::span<const Protocol* const> all() const { return all_; }
  /// The protocols that have the hook `send` or `append_rts`, in the order of their copies.
  [[nodiscard]] std::span<const Protocol* const> that_send() const { return senders_; }
  [[nodiscard]] std::span<const Protocol* const> that_append() const { return appenders_; }
  /// The one protocol that has the hook `upload_eager` or `help`; null: none.
  [[nodiscard]] const Protocol* that_uploads() const { return uploader_; }
  [[nodiscard]] const Protocol* that_helps() const { return helper_; }
  /// Returns the index of a protocol of the table.
  [[nodiscard]] uint8_t index_of(const Protocol& protocol) const;
  /// Returns the protocol of an index, of any value; null: none.
  [[nodiscard]] const Protocol* at(uint8_t index) const {
    return index < all_.size() ? all_[index] : nullptr;
  }
  /// Returns the applicable protocol of the lowest cost that is not in `tried`, a set of indices as bits;
  /// null: none.
  [[nodiscard]] const Protocol* select(const MessageInfo& message, uint32_t tried = 0) const;

 private:
  template <class Hook>
  [[nodiscard]] std::vector<const Protocol*> having(Hook Protocol::*hook) const;
  std::span<const Protocol* const> all_;
  // So that a message does not look at protocols without the hook.
  std::vector<const Protocol*> receivers_, senders_, appenders_;
  const Protocol *uploader_ = nullptr, *helper_ = nullptr;
};

}  // namespace weft::p2p
