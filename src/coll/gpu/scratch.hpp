// SPDX-License-Identifier: BSD-3-Clause
// Scratch: the areas of GPU memory into which other ranks push in collectives. A capped pool of the process;
// an area is leased to one communicator at a time and freed at the end. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "core/instance.hpp"
#include "device/memory.hpp"

namespace weft::coll::gpu {

struct ScratchArea {
  device::Memory memory;
  uint32_t epoch = 0;  ///< of the last call in it: flags that lie there are not above
  bool leased = false;
};

class Scratch final : public core::Kept {
 public:
  ~Scratch() override;
  /// The pool of this process.
  [[nodiscard]] static Scratch& of(core::Instance& instance);
  /// An area in the context of `near` with so much room for pieces. Errc::again when coll.device_scratch
  /// allows no more.
  [[nodiscard]] Result<ScratchArea*> lease(const device::Memory& near, size_t pieces);

 private:
  [[nodiscard]] Status make_room(size_t bytes);
  std::vector<std::unique_ptr<ScratchArea>> areas_;
};

/// Bytes of an area behind what is kept zero: for pieces; at first, and for calls that want more.
[[nodiscard]] size_t area_data();
[[nodiscard]] size_t large_area_data();
[[nodiscard]] bool wants_large_area(uint64_t largest);
/// Zero where flags lie.
[[nodiscard]] Status clear(const ScratchArea& area);

}  // namespace weft::coll::gpu
