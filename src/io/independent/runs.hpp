// SPDX-License-Identifier: BSD-3-Clause
// Runs of an independent access: places in the file and in the stream of the memory, in batches.
// Threading: any thread, without the instance lock.
#pragma once
#include <sys/uio.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "io/backend/copy.hpp"
#include "io/backend/descriptor.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::io {

/// A run of the file and its place in the stream of the access.
struct FileRun {
  int64_t at, length, stream;
};

/// The memory of an access as a stream, of which blocks are accessed in order.
class MemoryStream {
 public:
  explicit MemoryStream(const p2p::Buffer& memory) : memory_(memory), type_(*memory.type) {
    contiguous_ = type_.contiguous();
  }
  /// Whether the bytes of the stream are adjacent in memory.
  [[nodiscard]] bool contiguous() const { return contiguous_; }
  [[nodiscard]] std::byte* data(int64_t stream) const {
    return static_cast<std::byte*>(memory_.address) + stream;
  }
  void copy_to(std::byte* out, int64_t stream, int64_t n, CopyMethod method = CopyMethod::cached) const {
    if (contiguous_)
      copy(method, out, data(stream), static_cast<size_t>(n));
    else
      pack(stream, out, n);
  }
  void copy_from(const std::byte* in, int64_t stream, int64_t n,
                 CopyMethod method = CopyMethod::cached) const {
    if (contiguous_)
      copy(method, data(stream), in, static_cast<size_t>(n));
    else
      unpack(stream, in, n);
  }
  void pack(int64_t stream, std::byte* out, int64_t n) const {
    datatype::pack(type_, memory_.count, memory_.address, stream, out, static_cast<size_t>(n));
  }
  void unpack(int64_t stream, const std::byte* in, int64_t n) const {
    datatype::unpack(type_, memory_.count, memory_.address, stream, in, static_cast<size_t>(n));
  }
  /// Returns iovecs of the stream from `stream`, at most `n` bytes, and the bytes that they hold. Empty if
  /// the runs are short.
  int64_t parts(int64_t stream, int64_t n, std::vector<iovec>& out) const;

 private:
  const p2p::Buffer& memory_;
  const datatype::Datatype& type_;
  bool contiguous_;
};

/// Limits of a batch, in bytes of the file.
struct Limits {
  int64_t bytes;
  int64_t gap = std::numeric_limits<int64_t>::max();
};

/// Runs of the file that one sieving access or mapping covers.
struct Batch {
  std::vector<FileRun> runs;
  int64_t useful = 0;
  [[nodiscard]] Range span() const { return {runs.front().at, runs.back().at + runs.back().length}; }
  [[nodiscard]] int64_t mean_gap() const {
    return runs.size() < 2 ? 0 : (span().bytes() - useful) / static_cast<int64_t>(runs.size() - 1);
  }
  void add(const FileRun& run) {
    runs.push_back(run);
    useful += run.length;
  }
  void clear() {
    runs.clear();
    useful = 0;
  }
  [[nodiscard]] bool fits(const FileRun& run, const Limits& limits) const {
    return runs.empty() || (run.at + run.length - runs.front().at <= limits.bytes &&
                            run.at - runs.back().at - runs.back().length <= limits.gap);
  }
};

/// The parts of a batch in a range of the file: calls visit(run) for each until it returns false.
template <class Visit>
void for_each_part(const Batch& batch, const Range& range, Visit&& visit) {
  for (const FileRun& run : batch.runs) {
    const int64_t first = std::max(run.at, range.first), end = std::min(run.at + run.length, range.end);
    if (first < end && !visit(FileRun{first, end - first, run.stream + (first - run.at)})) return;
  }
}

using Block = std::unique_ptr<std::byte[]>;

inline Block make_block(int64_t bytes) { return Block(new std::byte[static_cast<size_t>(bytes)]); }

/// Reads one run of the file by system calls. Returns the bytes read. `block`: scratch memory, allocated here
/// when it is needed.
[[nodiscard]] Result<int64_t> read_run(const Descriptor& file, const MemoryStream& memory, const FileRun& run,
                                       Block& block);
[[nodiscard]] Status write_run(const Descriptor& file, const MemoryStream& memory, const FileRun& run,
                               Block& block);

}  // namespace weft::io
