// SPDX-License-Identifier: BSD-3-Clause
// View: which bytes of a file a process accesses, in which order (MPI 5.0 section 14.3). The view's stream is
// the sequence of its data bytes; stream offsets and file offsets are in bytes. Immutable.
// Threading: created and destroyed under the instance lock, const functions on any thread.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::io {

struct Datarep;

/// Largest file, in bytes: rounding up a file offset to pages, windows and stripes does not overflow.
inline constexpr int64_t kFileEnd = std::numeric_limits<int64_t>::max() - (int64_t{1} << 32);

class View {
 public:
  /// Bytes from `disp`: the view of MPI_File_open.
  [[nodiscard]] static std::shared_ptr<const View> bytes();
  /// Errors: arg (filetype not made of etypes, or beyond the largest file), MPI_ERR_IO (negative or
  /// decreasing displacements). `writable`: overlapping regions are errors too. `datarep`: null for "native"
  /// and "internal"; `datarep_name`: what the program has set.
  [[nodiscard]] static Result<std::shared_ptr<const View>> create(int64_t disp, datatype::Datatype& etype,
                                                                  datatype::Datatype& filetype, bool writable,
                                                                  const Datarep* datarep,
                                                                  std::string datarep_name);
  /// `file_etype`, `file_layout`: the types in the file's data representation.
  View(int64_t disp, datatype::Datatype& etype, datatype::Datatype& filetype, datatype::Datatype& file_etype,
       datatype::Datatype& file_layout);
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  ~View();

  /// End of the stream: all file offsets of the bytes before it are in [0, kFileEnd]. Offsets and pointers
  /// that programs pass are compared with it, so that nothing below overflows.
  [[nodiscard]] int64_t stream_end() const { return stream_end_; }
  /// Stream offset of an access; arguments in etypes. Error: arg, if the access ends beyond stream_end(); it
  /// names the offset as `what`.
  [[nodiscard]] Result<int64_t> place(const char* what, int64_t offset, int64_t etypes) const;
  /// File offset of a byte of the stream. Preconditions: the filetype has data; `stream` < stream_end().
  [[nodiscard]] int64_t position(int64_t stream) const;
  /// Number of bytes of the stream before the file offset `at`. Precondition: the tiles are not interleaved.
  [[nodiscard]] int64_t stream_before(int64_t at) const;
  /// The same, from `low` to `high`, the bounds of an ordered part of the stream.
  [[nodiscard]] int64_t stream_before(int64_t at, int64_t low, int64_t high) const;
  /// Whether the file offsets of bytes [stream, stream + n) increase.
  [[nodiscard]] bool ordered(int64_t stream, int64_t n) const {
    return !overlapping && (!interleaved || n == 0 || stream / size_ == (stream + n - 1) / size_);
  }
  /// Whether bytes [stream, stream + n) are adjacent in the file.
  [[nodiscard]] bool adjacent(int64_t stream, int64_t n) const {
    return contiguous || n == 0 || position(stream + n - 1) - position(stream) == n - 1;
  }
  /// Calls f(file offset, length) for the runs of bytes [stream, stream + n) in stream order, adjacent runs
  /// merged. f returns false to stop.
  template <class F>
  void for_each_run(int64_t stream, int64_t n, F&& f) const {
    if (n <= 0) return;
    if (contiguous) {
      f(disp + stream, n);
      return;
    }
    int64_t at = 0, length = 0;
    bool going = true;
    const int64_t first = stream / size_;  // large displacements only in `base`
    const int64_t base = disp + first * layout.extent();
    const auto merge = [&](datatype::Count run, datatype::Count bytes) {
      if (base + run == at + length) {
        length += bytes;
        return true;
      }
      if (length != 0) going = f(at, length);
      at = base + run;
      length = bytes;
      return going;
    };
    const int64_t skip = stream - first * size_;
    datatype::for_each_run(layout, (skip + n - 1) / size_ + 1, skip, n, merge);
    if (going && length != 0) f(at, length);
  }

  const int64_t disp;
  datatype::Datatype& etype;
  datatype::Datatype& filetype;
  datatype::Datatype& layout;     ///< `filetype` in the file
  const int64_t etype_size;       ///< in the file, in bytes
  const int64_t etype_in_memory;  ///< bytes of an etype in memory
  bool contiguous;
  bool overlapping = false;  ///< regions of the filetype overlap, so that file offsets are not ordered
  bool interleaved = false;  ///< a filetype begins before the end of the filetype before it
  int64_t mean_run = 0;      ///< mean length of the runs of the filetype, in bytes; 0 if `contiguous`
  const Datarep* datarep = nullptr;  ///< null: data is stored as in memory
  std::string datarep_name = "native";

 private:
  [[nodiscard]] Status check(bool writable);
  [[nodiscard]] Status find_stream_end();
  const int64_t size_;  ///< of `layout`
  int64_t stream_end_ = kFileEnd;
};

}  // namespace weft::io
