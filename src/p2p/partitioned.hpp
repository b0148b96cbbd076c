// SPDX-License-Identifier: BSD-3-Clause
// Partitioned: one side of a partitioned operation (MPI 5.0 chapter 4), a persistent request. Its message
// moves as one transfer per partition of the sender, each started when the partition is ready.
// Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "core/instance.hpp"
#include "core/request.hpp"
#include "p2p/p2p.hpp"
#include "p2p/partition_flags.hpp"

namespace weft::p2p {

/// The sender's setup message is matched in the order of the init calls. It names a new context for the pair,
/// in which sender partition i has tag i. The receiver splits its buffer at the sender's partitions.
class Partitioned final : public core::Request, private core::Poller {
 public:
  /// `buffer`: the first of `partitions` equal, adjacent parts. Errc::no_mem: too many requests or
  /// partitions.
  [[nodiscard]] static Result<Partitioned*> create(bool sends, const Buffer& buffer, int partitions, int rank,
                                                   int tag, core::Communicator& comm);
  ~Partitioned() override;
  static Slab<Partitioned>& slab();

  Status start() override;
  void destroy() override;
  [[nodiscard]] core::Operands operands() const override;

  /// Before the first start: the buffer is `count` items of `type`, the partitions the first bytes of their
  /// type map. Errc::no_mem: too many partitions.
  [[nodiscard]] Status set_items(int64_t count, datatype::Datatype& type);

  /// MPI_Pready of an active send.
  [[nodiscard]] Status ready(int partition);
  /// MPI_Parrived of an active receive: whether all sender partitions that overlap the partition have
  /// arrived.
  [[nodiscard]] bool arrived(int partition) const;
  /// The handle of weft_device.cuh, made at the first call. Errc::unsupported: no current CUDA context.
  [[nodiscard]] Result<void*> device_handle();

  const bool sends;
  const int partitions;

 private:
  struct Setup {
    core::ContextId context;
    uint64_t partitions, bytes;  ///< number of sender partitions, and bytes of each
  };
  struct PartTransfer {
    Transfer transfer{Kind::send};
  };
  using Parts = std::unique_ptr<PartTransfer[]>;
  friend Slab<Partitioned>;
  Partitioned(bool sends, const Buffer& buffer, int partitions, int rank, int tag, core::Communicator& comm);
  [[nodiscard]] static Result<Parts> create_parts(uint64_t partitions);

  void post_handshake();
  bool poll() override;
  void prepare(size_t part, const Buffer& buffer);
  [[nodiscard]] Status split_buffer();
  [[nodiscard]] Result<Buffer> buffer_part(uint64_t part);
  [[nodiscard]] uint64_t total_bytes() const;
  void release_slices();
  void start_transfers();
  void exchange_flags();
  void end();

  Buffer buffer_;        ///< all partitions
  uint64_t part_bytes_;  ///< bytes of one partition
  int rank_, tag_;
  Setup setup_{};
  Transfer handshake_;                       ///< of `setup_`
  bool prepared_ = false;                    ///< the setup is known and the transfers are prepared
  Parts parts_;                              ///< setup_.partitions elements
  uint64_t finished_ = 0;                    ///< number of leading transfers that are complete
  std::vector<datatype::Datatype*> slices_;  ///< datatypes of parts that split an item of the buffer
  std::unique_ptr<PartitionFlags> flags_;    ///< of kernels; null: none
};

}  // namespace weft::p2p
