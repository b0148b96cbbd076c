// SPDX-License-Identifier: BSD-3-Clause
// Partitioned: one side of a partitioned operation (MPI 5.0 chapter 4), a persistent request whose message
// moves in pieces, one for each partition of the sender, as they become ready.
// Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "core/instance.hpp"
#include "core/request.hpp"
#include "p2p/p2p.hpp"

namespace weft::p2p {

/// The sender's offer finds the receiver in the order of the init calls; it names a context of the pair's
/// own, in which piece i has tag i. The receiver cuts its buffer at the sender's partitions.
class Partitioned final : public core::Request, private core::Poller {
 public:
  /// `buffer`: the first of `partitions` alike, one behind the other.
  Partitioned(bool sends, const Buffer& buffer, int partitions, int rank, int tag, core::Communicator& comm);
  ~Partitioned() override;
  static Slab<Partitioned>& slab();

  Status start() override;
  void destroy() override;

  /// MPI_Pready of an active send.
  [[nodiscard]] Status ready(int partition);
  /// MPI_Parrived of an active receive: whether all pieces that the partition has a share in are there.
  [[nodiscard]] bool arrived(int partition) const;

  const bool sends;
  const int partitions;

 private:
  struct Offer {
    core::ContextId context;
    uint64_t pieces, bytes;  ///< number, and bytes of each
  };
  struct Piece {
    Transfer transfer{Kind::send};
  };

  bool poll() override;
  void prepare(size_t piece, const Buffer& buffer);
  [[nodiscard]] Status cut();
  [[nodiscard]] Result<Buffer> share(uint64_t piece);
  [[nodiscard]] uint64_t room() const;
  void start_pieces();
  void end();

  Buffer buffer_;
  int rank_, tag_;
  Offer offer_{};
  Transfer handshake_;                       ///< of the offer
  bool joined_ = false;                      ///< the offer is known and the pieces are prepared
  std::unique_ptr<Piece[]> pieces_;          ///< offer_.pieces of them
  uint64_t finished_ = 0;                    ///< the first so many are complete
  std::vector<datatype::Datatype*> slices_;  ///< where the sender's cuts are not at elements of ours
};

}  // namespace weft::p2p
