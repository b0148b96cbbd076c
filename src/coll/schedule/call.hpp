// SPDX-License-Identifier: BSD-3-Clause
// Call: the arguments of one collective operation, which are the parameters of its algorithm.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/communicator.hpp"
#include "core/op.hpp"
#include "datatype/datatype.hpp"
#include "device/memory.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll {

enum class Collective : uint8_t {
  barrier,
  bcast,
  reduce,
  allreduce,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce_scatter_block,
  reduce_scatter,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw
};
inline constexpr int kCollectives = static_cast<int>(Collective::neighbor_alltoallw) + 1;
/// Root argument of the root itself on an intercommunicator. The other ranks of its group pass
/// p2p::kProcNull.
inline constexpr int kRoot = -4;                  // MPI_ROOT in the ABI
[[nodiscard]] const char* name(Collective what);  ///< "allreduce"

/// View of an array of counts or displacements, int or 64-bit. Owned by the caller.
struct CountView {
  const void* data = nullptr;
  bool wide = false;
  [[nodiscard]] int64_t operator[](int i) const {
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int*>(data)[i];
  }
  explicit operator bool() const { return data != nullptr; }
};

/// Address arithmetic that is also defined for MPI_BOTTOM.
[[nodiscard]] inline void* advance(const void* address, int64_t bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(bytes));
}

/// Send or receive operand of a call: one block for each rank or neighbor, or one vector. Blocks are
/// contiguous and have `count` elements each; with `counts`, each block has its own length and lies at its
/// displacement (in extents; with `types`, in bytes).
struct Operand {
  void* address = nullptr;
  int64_t count = 0;
  int blocks = 0;  ///< length of the arrays
  const datatype::Datatype* type = nullptr;
  CountView counts, displacements;
  const datatype::Datatype* const* types = nullptr;
  device::Memory memory;
  bool classified = false;  ///< `memory` is valid for the whole operand

  /// The block of rank i.
  [[nodiscard]] p2p::Buffer block(int i) const {
    const device::Memory* known = classified ? &memory : nullptr;
    if (types != nullptr) return {advance(address, displacements[i]), counts[i], types[i], known};
    const int64_t n = counts ? counts[i] : count;
    const int64_t at = displacements ? displacements[i] : i * count;
    return {advance(address, at * type->extent()), n, type, known};
  }
  /// Elements [first, first + n) of a vector.
  [[nodiscard]] p2p::Buffer part(int64_t first, int64_t n) const;
  /// All `count` elements of a vector.
  [[nodiscard]] p2p::Buffer whole() const { return part(0, count); }
  [[nodiscard]] bool on_device() const { return classified && memory.on_device(); }
  /// Queries the memory kind of the operand. Leaves it to the transfers if the blocks may differ in kind.
  void classify() {
    if (device::available()) [[unlikely]]
      query_driver();
    else
      classified = true;  // host memory
  }
  void query_driver();
};

/// A collective operation. With in_place, `send` is a copy of `recv` for reductions and unused otherwise.
/// On an intercommunicator `rank` and `size` refer to the local group, and `root` is kRoot, p2p::kProcNull or
/// a rank of the remote group.
struct Call {
  Collective what = Collective::barrier;
  core::Communicator* comm = nullptr;
  int rank = 0;
  int size = 1;
  int root = 0;
  bool in_place = false;
  bool scaled = false;  ///< `op` scales: dispatch/scaled.hpp makes it a sum
  Operand send, recv;
  core::Op* op = nullptr;
  core::Communicator* child = nullptr;  ///< on whose id a nonblocking call agrees (start_context_broadcast())
  int64_t results = 0;  ///< reductions: elements of this rank's result; the input has send.count
  uint64_t bytes =
      0;  ///< size for selection, equal on all ranks: one block of gather, scatter, allgather and
          ///< alltoall; the sum of all blocks of v-variants and reduce_scatter; else the vector
  int tag = 0;
  int phase = 0;                 ///< of the algorithm: see Round::next_phase
  std::byte* scratch = nullptr;  ///< Algorithm::scratch() bytes
  size_t scratch_bytes = 0;
  bool on_gpu = false;  ///< a reduction by kernels; operands and scratch are memory of one GPU
  device::Memory gpu;   ///< memory of that GPU: the scratch, else an operand
  /// Not null: the error because of which this rank cannot take part. Its steps use empty messages and touch
  /// no operand, so that no peer waits for ever and peers that need its data report an error.
  const Error* failed = nullptr;

  [[nodiscard]] bool inter() const { return comm != nullptr && comm->inter(); }
  [[nodiscard]] bool reduction() const { return op != nullptr; }
  [[nodiscard]] bool commutative() const { return op->commutative; }
  /// The memory of `address`, which lies in an operand or the scratch. Requires on_gpu.
  [[nodiscard]] const device::Memory& memory_at(const void* address) const;
  /// Rank relative to the root.
  [[nodiscard]] int relative() const { return rank >= root ? rank - root : rank - root + size; }
  [[nodiscard]] int absolute(int relative_rank) const { return (relative_rank + root) % size; }
  /// Any integer modulo the size, as a rank.
  [[nodiscard]] int wrap(int any) const { return (any % size + size) % size; }
};

/// Whether it is a neighborhood collective.
[[nodiscard]] inline bool among_neighbors(const Call& call) {
  return call.what >= Collective::neighbor_allgather;
}

/// Buffer in the library's own host memory: `n` bytes, or elements of a type.
[[nodiscard]] p2p::Buffer packed(void* address, uint64_t n);
[[nodiscard]] p2p::Buffer host_buffer(void* address, int64_t count, const datatype::Datatype& type);

/// Packed size of a buffer in bytes.
[[nodiscard]] inline int64_t packed_bytes(const p2p::Buffer& buffer) {
  return buffer.count * buffer.type->size();
}

/// Empty blocks are neither sent nor received in v- and w-variants and linear algorithms: both sides know the
/// size, since their type signatures are equal (MPI 5.0 section 6.5).
[[nodiscard]] inline bool empty(const p2p::Buffer& buffer) { return packed_bytes(buffer) == 0; }

/// Size of host memory for elements of a type, and the offset of element 0 in it.
struct TypedLayout {
  size_t bytes = 0;  ///< a multiple of 64
  ptrdiff_t origin = 0;
  TypedLayout(const datatype::Datatype& type, int64_t count);
};

}  // namespace weft::coll
