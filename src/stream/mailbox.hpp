// SPDX-License-Identifier: BSD-3-Clause
// Mailbox: a rank's area in GPU memory for the messages of one communicator, and the areas of the other ranks
// mapped here. Made and closed by all ranks together. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "device/kernel/collective.hpp"
#include "device/stream.hpp"

namespace weft::stream {

class Mailbox {
 public:
  /// Collective over `comm`; every rank has the same outcome. Errc::unsupported, with the rank and its
  /// reason, when some rank's GPU cannot map the areas of all others.
  [[nodiscard]] static Result<std::unique_ptr<Mailbox>> create(core::Communicator& comm,
                                                               const device::UserStream& stream);
  ~Mailbox();  ///< lets go of the peers' areas only: they may use the own one still
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  /// Collective: nobody's kernels use the areas any more. Lets go of the peers' areas, then of the own one.
  [[nodiscard]] Status close(core::Communicator& comm);

  /// What kernels report, pinned host memory.
  [[nodiscard]] device::kernel::enqueue::Fault& fault() const { return *fault_; }
  /// The area's address.
  [[nodiscard]] uint64_t area() const { return area_.base; }
  /// A peer's area as it is mapped here.
  [[nodiscard]] uint64_t area_of(int peer) const { return peers_[static_cast<size_t>(peer)].base; }
  /// Where collectives are counted, and where ranks push in them; only among so many ranks as one takes.
  [[nodiscard]] bool has_collectives() const { return ranks_ <= device::kernel::Collective::kRanks; }
  [[nodiscard]] uint64_t control_of(int peer) const;
  [[nodiscard]] uint64_t pushed_to(int peer) const { return control_of(peer) + kControl; }
  [[nodiscard]] static uint64_t room_for_pieces();
  /// Room that no message of a peer uses, for messages to oneself.
  [[nodiscard]] uint64_t own_room(uint32_t rank) const;
  static constexpr uint64_t kOwnRoom = sizeof(device::kernel::enqueue::Inbox::payload);

 private:
  Mailbox(uint32_t ranks, const device::UserStream& stream) : ranks_(ranks), stream_(stream), peers_(ranks) {}
  static constexpr uint64_t kControl = 4096;
  [[nodiscard]] uint64_t bytes() const;
  [[nodiscard]] Status allocate(core::Communicator& comm);
  [[nodiscard]] Status clear(uint64_t first, uint64_t n) const;
  struct Card;
  [[nodiscard]] Status describe(Card& card) const;
  [[nodiscard]] Status map(uint32_t peer, const Card& card);
  [[nodiscard]] Status tell_kernels();
  void unmap();
  void release();

  const uint32_t ranks_;
  const device::UserStream stream_;
  int self_ = 0;  // rank
  device::kernel::enqueue::Fault* fault_ = nullptr;
  device::Memory area_;
  std::vector<device::Memory> peers_;  // base 0: not mapped
};

}  // namespace weft::stream
