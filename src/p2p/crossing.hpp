// SPDX-License-Identifier: BSD-3-Clause
// Crossing: what a transfer with a process of another host keeps. All of them are in one list of the engine,
// to be found when a host is lost.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "device/copy.hpp"
#include "device/pinned.hpp"
#include "p2p/header.hpp"

namespace weft::p2p {

class Engine;
class Transfer;

/// Host memory for a piece of a message: pinned where a GPU is to copy it, if there is any left.
class Room {
 public:
  [[nodiscard]] static Room lease(const device::Memory& near, size_t bytes);
  [[nodiscard]] std::byte* data() const {
    return heap_ ? heap_.get() : reinterpret_cast<std::byte*>(pinned_.data());
  }
  [[nodiscard]] device::Memory memory() const { return heap_ ? device::Memory{} : pinned_.memory(); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] explicit operator bool() const { return size_ != 0; }

 private:
  device::PinnedBuffer pinned_;
  std::unique_ptr<std::byte[]> heap_;
  size_t size_ = 0;
};

/// A piece of the message on its way into the receiver's buffer.
struct Reading : transport::Completion {
  Engine* engine = nullptr;
  Transfer* transfer = nullptr;
  uint64_t offset = 0;  ///< in the message
  size_t size = 0;
  Room room;  ///< empty: fetched straight into its place
  device::Ticket upload;
  bool uploading = false;
  ScratchChunk offer{};  ///< to be answered when `offered`
  bool offered = false;
};

/// A piece that the sender has in host memory for the receiver.
struct Offering {
  Room room;
  device::Ticket filled;
  uint64_t offset, number;
  size_t size;
  uint64_t exposed = 0;  ///< not 0: the receiver was told
};

struct Crossing {
  Transfer* next = nullptr;
  Transfer* previous = nullptr;

  // A send.
  uint64_t exposed = 0;                 ///< the whole buffer
  std::unique_ptr<std::byte[]> packed;  ///< a small device message, to be sent with its header
  bool piped = false;                   ///< by offerings
  std::deque<Offering> offerings;
  uint64_t next_offset = 0, next_number = 0;

  // A receive.
  bool pulls = false;   ///< by readings
  bool active = false;  ///< counted among those that hold rooms
  bool direct = false;  ///< readings go straight to their places
  bool ended = false;   ///< the sender gave up: nothing more comes
  bool keyed = false;   ///< the sender exposes its buffer under `key`; else by offers
  Key key{};
  uint64_t asked = 0;  ///< bytes that are being fetched or were
  std::deque<KeyedChunk> offers;
  std::vector<std::unique_ptr<Reading>> readings;
};

}  // namespace weft::p2p
