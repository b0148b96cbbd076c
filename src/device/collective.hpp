// SPDX-License-Identifier: BSD-3-Clause
// Launching collective kernels (kernel/collective.hpp) and seeing their end. Threading: any thread; one
// port's calls are serialised by its owner.
#pragma once
#include <cstdint>
#include <utility>

#include "base/result.hpp"
#include "device/kernel/collective.hpp"
#include "device/kernel/direct.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// How a collective's data travel: packets or lines, with flags beside the data, or pieces with flags behind
/// them. Direct: in the buffers of all ranks.
enum class Wire : uint8_t { packets, lines, blocks, direct };

/// Where the calls of one communicator start on one GPU, one at a time. Goes back to its context on
/// destruction.
class CollectivePort {
 public:
  CollectivePort() = default;
  CollectivePort(CollectivePort&& other) noexcept { swap(other); }
  CollectivePort& operator=(CollectivePort&& other) noexcept {
    CollectivePort(std::move(other)).swap(*this);
    return *this;
  }
  ~CollectivePort();
  /// A port in the context of `near`. Errc::unsupported, with the reason, where kernels that wait for each
  /// other cannot run; Errc::again when all are taken.
  [[nodiscard]] static Result<CollectivePort> open(const Memory& near);

  /// Starts `call`, whose places and status are filled in here.
  [[nodiscard]] Status launch(kernel::Collective& call, Wire wire, uint32_t blocks, uint32_t threads);
  [[nodiscard]] Status launch(kernel::Direct& call, uint32_t blocks, uint32_t threads);
  /// What holds for all calls: areas, rank, size and patience; before the first ring().
  void settle(const kernel::Collective& home);
  /// Starts a small call by so many blocks of the copier, when it is awake. False: launch it.
  [[nodiscard]] bool ring(const kernel::Regular& call, Wire wire, uint32_t epoch, uint32_t blocks);
  /// Instead of ring(), for a call that so many blocks of the copier would do if it were awake.
  void want_copier(uint32_t blocks);
  /// After launching such a call, or what ring() refused: the next ones may be for the copier.
  void wake_copier();
  /// The copier is awake, with all its blocks.
  [[nodiscard]] bool awake() const;
  enum class Outcome : uint8_t { running, complete, late, untouched };
  /// How the last start stands. `late`: it has waited too long for other ranks; launch it again with the next
  /// number. `untouched`: the copier left without it; launch it with number 0. An error when the GPU faulted.
  [[nodiscard]] Result<Outcome> look();
  /// Buffers of this kind of memory can be worked on.
  [[nodiscard]] bool reaches(const Memory& memory) const;

 private:
  [[nodiscard]] Status start(kernel::Collective& call, uint8_t kernel, void* parameter, uint32_t blocks,
                             uint32_t threads);
  void swap(CollectivePort& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(number_, other.number_);
    std::swap(expected_, other.expected_);
    std::swap(check_at_, other.check_at_);
    std::swap(rung_, other.rung_);
  }
  void* state_ = nullptr;
  uint32_t number_ = 0;
  uint64_t expected_ = 0;  // the status word of the last launch, without its lowest bit
  uint32_t rung_ = 0;      // the copier's number of the last call; 0: it was launched
  uint64_t check_at_ = 0;  // when the stream is next asked for faults
};

}  // namespace weft::device
