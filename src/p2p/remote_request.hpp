// SPDX-License-Identifier: BSD-3-Clause
// RemoteRequest: state of a transfer with a process of another host.
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

/// Host memory for one fragment: pinned, for copies by the GPU, unless the pinned pool is exhausted.
class StagingBuffer {
 public:
  [[nodiscard]] static StagingBuffer lease(const device::Memory& near, size_t bytes);
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

/// One fragment being read into the receive buffer.
struct FragmentGet : transport::Completion {
  Engine* engine = nullptr;
  Transfer* transfer = nullptr;
  uint64_t offset = 0;  ///< in the message
  size_t size = 0;
  StagingBuffer buffer;  ///< empty: read straight into the receive buffer
  device::Ticket upload;
  bool uploading = false;
  BounceChunk announcement{};  ///< echoed to the sender if `announced_by_sender`
  bool announced_by_sender = false;
};

/// One fragment that the sender copies to host memory for the receiver to read.
struct StagedFragment {
  StagingBuffer buffer;
  device::Ticket filled;
  uint64_t offset, number;
  size_t size;
  uint64_t registration = 0;  ///< nonzero: registered and announced
};

struct RemoteRequest {
  // A send.
  uint64_t registration = 0;            ///< of the whole buffer
  std::unique_ptr<std::byte[]> packed;  ///< small device message, sent eagerly
  bool pipelined = false;               ///< send `fragments`
  std::deque<StagedFragment> fragments;
  uint64_t next_offset = 0, next_number = 0;

  // A receive.
  bool uses_gets = false;      ///< the data arrive by `gets`
  bool active = false;         ///< holds staging buffers; listed in Engine::active_gets_
  bool in_place = false;       ///< gets write straight into the receive buffer
  bool sender_failed = false;  ///< the sender announces no more fragments
  bool has_rkey = false;       ///< `rkey` names the sender's whole buffer; false: fragments are announced
  Rkey rkey{};
  uint64_t requested = 0;        ///< bytes of all gets issued so far
  uint64_t announced_bytes = 0;  ///< bytes of all fragments announced so far
  std::deque<FragmentAnnouncement> announced;
  std::vector<std::unique_ptr<FragmentGet>> gets;
};

}  // namespace weft::p2p
