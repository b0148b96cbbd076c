// SPDX-License-Identifier: BSD-3-Clause
// Host packing: a visitor that copies runs between the user's buffer and the packed stream. Common run
// lengths have specialised loops with a compile-time length.
#include <algorithm>
#include <cstring>

#include "datatype/datatype.hpp"

namespace weft::datatype {
namespace {

enum class Direction : uint8_t { pack, unpack };

/// Copies up to 16 bytes inline, as two overlapping halves.
inline void copy_short(char* to, const char* from, size_t n) {
  if (n >= 8) {
    uint64_t head, tail;
    std::memcpy(&head, from, 8);
    std::memcpy(&tail, from + n - 8, 8);
    std::memcpy(to, &head, 8);
    std::memcpy(to + n - 8, &tail, 8);
  } else if (n >= 4) {
    uint32_t head, tail;
    std::memcpy(&head, from, 4);
    std::memcpy(&tail, from + n - 4, 4);
    std::memcpy(to, &head, 4);
    std::memcpy(to + n - 4, &tail, 4);
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

/// Compile-time run length; 0: known only at run time.
template <size_t n>
using Fixed = std::integral_constant<size_t, n>;

template <class Loop>
bool dispatch_length(Count length, Loop&& loop) {
  switch (length) {
    case 1:
      return loop(Fixed<1>{});
    case 2:
      return loop(Fixed<2>{});
    case 4:
      return loop(Fixed<4>{});
    case 8:
      return loop(Fixed<8>{});
    case 12:
      return loop(Fixed<12>{});
    case 16:
      return loop(Fixed<16>{});
    case 24:
      return loop(Fixed<24>{});
    case 32:
      return loop(Fixed<32>{});
    case 64:
      return loop(Fixed<64>{});
    default:
      return loop(Fixed<0>{});
  }
}

template <Direction direction>
class PackVisitor {
 public:
  PackVisitor(uintptr_t buffer, char* stream) : buffer_(buffer), stream_(stream) {}

  bool run(Count displacement, Count length) {
    stream_ = move(address_of(displacement), stream_, static_cast<size_t>(length), Fixed<0>{});
    return true;
  }
  bool grid(Count displacement, Count length, Count stride, Count count, Count outer_stride,
            Count outer_count) {
    return dispatch_length(length, [&](auto fixed) {
      stream_ = move_grid(address_of(displacement), stream_, static_cast<size_t>(length), fixed,
                          {stride, count}, {outer_stride, outer_count});
      return true;
    });
  }
  bool scattered(Count base, const Count* displacements, Count count, Count length, Count outer_stride,
                 Count outer_count) {
    return dispatch_length(length, [&](auto fixed) {
      stream_ = move_scattered(address_of(base), stream_, static_cast<size_t>(length), fixed,
                               {displacements, count}, {outer_stride, outer_count});
      return true;
    });
  }

 private:
  static constexpr Count kCacheLineBytes = 64, kPrefetchRuns = 16;

  // Integer arithmetic, because the buffer may be MPI_BOTTOM.
  static uintptr_t as_address(Count displacement) { return static_cast<uintptr_t>(displacement); }
  uintptr_t address_of(Count displacement) const { return buffer_ + as_address(displacement); }

  struct Strides {
    Count stride, count;
  };
  struct Displacements {
    const Count* displacements;
    Count count;
  };

  // Arguments by value: the copied bytes could alias anything in memory.
  template <size_t fixed>
  static char* move_grid(uintptr_t row, char* stream, size_t n, Fixed<fixed> length, Strides inner,
                         Strides outer) {
    for (; outer.count > 0; --outer.count, row += as_address(outer.stride)) {
      uintptr_t at = row;
      Count i = 0;
      if (inner.stride >= kCacheLineBytes) {  // one cache line per run: hardware prefetch falls behind
#pragma GCC unroll 4
        for (; i < inner.count - kPrefetchRuns; ++i, at += as_address(inner.stride)) {
          __builtin_prefetch(reinterpret_cast<const void*>(at + as_address(kPrefetchRuns * inner.stride)));
          stream = move(at, stream, n, length);
        }
      }
#pragma GCC unroll 4
      for (; i < inner.count; ++i, at += as_address(inner.stride)) stream = move(at, stream, n, length);
    }
    return stream;
  }
  template <size_t fixed>
  static char* move_scattered(uintptr_t row, char* stream, size_t n, Fixed<fixed> length, Displacements inner,
                              Strides outer) {
    for (; outer.count > 0; --outer.count, row += as_address(outer.stride))
      for (Count i = 0; i < inner.count; ++i)
        stream = move(row + as_address(inner.displacements[i]), stream, n, length);
    return stream;
  }

  /// Copies one run and returns the next position of the stream.
  template <size_t fixed>
  static char* move(uintptr_t address, char* stream, size_t n, Fixed<fixed>) {
    char* memory = reinterpret_cast<char*>(address);
    char* to = direction == Direction::pack ? stream : memory;
    const char* from = direction == Direction::pack ? memory : stream;
    if constexpr (fixed != 0)
      std::memcpy(to, from, fixed);
    else if (n <= 16)
      copy_short(to, from, n);
    else
      std::memcpy(to, from, n);
    return stream + (fixed != 0 ? fixed : n);
  }

  uintptr_t buffer_;
  char* stream_;
};

template <Direction direction>
size_t transfer(const Datatype& type, Count count, const void* buf, Count offset, const void* stream,
                size_t n) {
  PackVisitor<direction> visitor(reinterpret_cast<uintptr_t>(buf),
                                 static_cast<char*>(const_cast<void*>(stream)));
  const auto limit = static_cast<Count>(std::min<size_t>(n, INT64_MAX));
  return static_cast<size_t>(
      walk_elements(type.layout().get(), count, type.extent(), offset, limit, visitor));
}

}  // namespace

size_t pack(const Datatype& type, Count count, const void* buf, Count offset, void* out, size_t n) {
  return transfer<Direction::pack>(type, count, buf, offset, out, n);
}

size_t unpack(const Datatype& type, Count count, void* buf, Count offset, const void* in, size_t n) {
  return transfer<Direction::unpack>(type, count, buf, offset, in, n);
}

size_t copy(const void* source, Count source_count, const Datatype& source_type, void* target,
            Count target_count, const Datatype& target_type) {
  const Count total = std::min(source_count * source_type.size(), target_count * target_type.size());
  if (total <= 0) return 0;
  const auto bytes = static_cast<size_t>(total);
  if (source_type.contiguous()) return unpack(target_type, target_count, target, 0, source, bytes);
  if (target_type.contiguous()) return pack(source_type, source_count, source, 0, target, bytes);
  alignas(64) char stage[16384];  // fits the L1 cache
  for (Count done = 0; done < total;) {
    const size_t n = pack(source_type, source_count, source, done, stage,
                          std::min<size_t>(sizeof stage, static_cast<size_t>(total - done)));
    unpack(target_type, target_count, target, done, stage, n);
    done += static_cast<Count>(n);
  }
  return bytes;
}

}  // namespace weft::datatype
