// SPDX-License-Identifier: BSD-3-Clause
// Packing on the host: a visitor that moves runs between the user's buffer and a stream of bytes.
// Common run lengths have loops of their own with the length known to the compiler.
#include <algorithm>
#include <cstring>

#include "datatype/datatype.hpp"

namespace weft::datatype {
namespace {

enum class Direction : uint8_t { pack, unpack };

/// Copies up to 16 bytes without a call: two overlapping halves.
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

template <Direction direction>
class Mover {
 public:
  Mover(uintptr_t buffer, char* stream) : buffer_(buffer), stream_(stream) {}

  bool run(Count displacement, Count length) {
    move(displacement, static_cast<size_t>(length));
    return true;
  }
  bool strided(Count displacement, Count length, Count stride, Count count) {
    by_length(length, [&](auto fixed) {
      const auto n = size_of(fixed, length);
      for (Count i = 0; i < count; ++i, displacement += stride) move_n(displacement, n, fixed);
    });
    return true;
  }
  bool scattered(Count base, const Count* displacements, Count length, Count count) {
    by_length(length, [&](auto fixed) {
      const auto n = size_of(fixed, length);
      for (Count i = 0; i < count; ++i) move_n(base + displacements[i], n, fixed);
    });
    return true;
  }

 private:
  template <size_t n>
  using Fixed = std::integral_constant<size_t, n>;  // 0: the length is not known in advance

  template <class Loop>
  static void by_length(Count length, Loop&& loop) {
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
  template <size_t n>
  static size_t size_of(Fixed<n>, Count length) {
    return n != 0 ? n : static_cast<size_t>(length);
  }
  char* at(Count displacement) const {  // the buffer may be MPI_BOTTOM: integers, not pointers, are added
    return reinterpret_cast<char*>(buffer_ + static_cast<uintptr_t>(displacement));
  }
  template <size_t fixed>
  void move_n(Count displacement, size_t n, Fixed<fixed>) {
    if constexpr (fixed != 0) {
      if constexpr (direction == Direction::pack)
        std::memcpy(stream_, at(displacement), fixed);
      else
        std::memcpy(at(displacement), stream_, fixed);
      stream_ += fixed;
    } else {
      move(displacement, n);
    }
  }
  void move(Count displacement, size_t n) {
    char* place = at(displacement);
    char* to = direction == Direction::pack ? stream_ : place;
    const char* from = direction == Direction::pack ? place : stream_;
    if (n <= 16)
      copy_short(to, from, n);
    else
      std::memcpy(to, from, n);
    stream_ += n;
  }

  uintptr_t buffer_;
  char* stream_;
};

template <Direction direction>
size_t transfer(const Datatype& type, Count count, const void* buf, Count offset, const void* stream,
                size_t n) {
  Mover<direction> mover(reinterpret_cast<uintptr_t>(buf), static_cast<char*>(const_cast<void*>(stream)));
  const auto limit = static_cast<Count>(std::min<size_t>(n, INT64_MAX));
  return static_cast<size_t>(walk_elements(type.layout().get(), count, type.extent(), offset, limit, mover));
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
  alignas(64) char stage[16384];  // stays in the first-level cache
  for (Count done = 0; done < total;) {
    const size_t n = pack(source_type, source_count, source, done, stage,
                          std::min<size_t>(sizeof stage, static_cast<size_t>(total - done)));
    unpack(target_type, target_count, target, done, stage, n);
    done += static_cast<Count>(n);
  }
  return bytes;
}

}  // namespace weft::datatype
