// SPDX-License-Identifier: BSD-3-Clause
// Packs in the machine's format first; then converts the stream number by number, following the type's
// signature.
#include "datatype/external.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "datatype/signature.hpp"

namespace weft::datatype {
namespace {

/// How one number is stored: bytes here, bytes there, and what has to happen besides turning it round.
struct Number {
  enum class Kind : uint8_t { opaque, integer, unsigned_integer, extended };
  size_t here = 0, there = 0;
  Kind kind = Kind::integer;
};

/// The numbers that one element of a basic type is made of.
struct Format {
  Number first, second;  ///< second.here is 0 when there is only one
};

Number plain(size_t bytes) { return {bytes, bytes, Number::Kind::integer}; }

template <class T>
Number number_of() {
  if constexpr (std::is_same_v<T, long double>) {
    // IEEE binary128 outside; the machine's may be another format of the same size.
    return {sizeof(T), 16, Number::Kind::extended};
  } else if constexpr (std::is_same_v<T, wchar_t>) {
    return {sizeof(T), 2, Number::Kind::unsigned_integer};
  } else {
    return plain(sizeof(T));
  }
}

template <class T>
struct FormatOf {
  static Format get() { return {number_of<T>(), {}}; }
};
template <class T>
struct FormatOf<Complex<T>> {
  static Format get() { return {number_of<T>(), number_of<T>()}; }
};
template <class V, class I>
struct FormatOf<Pair<V, I>> {
  static Format get() { return {number_of<V>(), number_of<I>()}; }
};

/// MPI_LONG and its relatives have 4 bytes outside, whatever they have here.
constexpr uintptr_t kLong = 0x20a, kUnsignedLong = 0x20e, kLongInt = 0x22a;

Format format_of(const Datatype& type) {
  const Number long_outside = {sizeof(long), 4, Number::Kind::integer};
  switch (type.handle()) {
    case kLong:
      return {long_outside, {}};
    case kUnsignedLong:
      return {{sizeof(long), 4, Number::Kind::unsigned_integer}, {}};
    case kLongInt:
      return {long_outside, plain(sizeof(int))};
  }
  switch (*type.basic()) {
#define WEFT_X(name, type, group) \
  case Basic::name:               \
    return FormatOf<type>::get();
    WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
  }
  return {};
}

constexpr bool kLittle = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

void turn(char* to, const char* from, size_t n) {
  if constexpr (kLittle)
    std::reverse_copy(from, from + n, to);
  else
    std::memcpy(to, from, n);
}

/// Fits an integer of `from_size` bytes into `to_size`: cuts it, or extends its sign. Both little-endian or
/// both big.
void resize(char* to, size_t to_size, const char* from, size_t from_size, bool is_signed) {
  unsigned char little[16];
  for (size_t i = 0; i < from_size; ++i)
    little[i] = static_cast<unsigned char>(kLittle ? from[i] : from[from_size - 1 - i]);
  const bool negative = is_signed && (little[from_size - 1] & 0x80) != 0;
  for (size_t i = from_size; i < to_size; ++i) little[i] = negative ? 0xFF : 0;
  for (size_t i = 0; i < to_size; ++i) to[kLittle ? i : to_size - 1 - i] = static_cast<char>(little[i]);
}

void put(const Number& number, const char* native, char* external) {
  char fitted[16];
  switch (number.kind) {
    case Number::Kind::extended: {
      long double value;
      std::memcpy(&value, native, sizeof value);
      const auto wide = static_cast<Float128>(value);
      std::memcpy(fitted, &wide, sizeof wide);
      return turn(external, fitted, sizeof wide);
    }
    default:
      if (number.here == number.there) return turn(external, native, number.here);
      resize(fitted, number.there, native, number.here, number.kind == Number::Kind::integer);
      return turn(external, fitted, number.there);
  }
}

void get(const Number& number, const char* external, char* native) {
  char fitted[16];
  switch (number.kind) {
    case Number::Kind::extended: {
      Float128 wide;
      turn(fitted, external, sizeof wide);
      std::memcpy(&wide, fitted, sizeof wide);
      const auto value = static_cast<long double>(wide);
      std::memset(native, 0, sizeof value);
      std::memcpy(native, &value, sizeof value);
      return;
    }
    default:
      if (number.here == number.there) return turn(native, external, number.here);
      turn(fitted, external, number.there);
      resize(native, number.here, fitted, number.there, number.kind == Number::Kind::integer);
  }
}

enum class Direction : uint8_t { out, in };

/// Converts between a packed native stream and the external one, both from their beginning.
void convert(const Datatype& type, Count count, char* native, char* external, Direction direction) {
  for_each_basic(type, count, [&](const Datatype& basic, Count copies) {
    const Format format = format_of(basic);
    for (; copies > 0; --copies) {
      for (const Number& number : {format.first, format.second}) {
        if (number.here == 0) continue;
        if (direction == Direction::out)
          put(number, native, external);
        else
          get(number, external, native);
        native += number.here;
        external += number.there;
      }
    }
  });
}

/// Room for a native stream; null when there is no memory.
std::unique_ptr<char[]> stage(Count bytes) {
  return std::unique_ptr<char[]>(new (std::nothrow) char[static_cast<size_t>(bytes)]);
}

Error no_memory(Count bytes) {
  return {Errc::no_mem,
          "no memory for " + std::to_string(bytes) + " bytes of packed data: convert in smaller parts"};
}

}  // namespace

Result<Count> external_size(const Datatype& type, Count count) {
  Checked math;
  Count bytes = 0;
  for_each_basic(type, 1, [&](const Datatype& basic, Count copies) {
    const Format format = format_of(basic);
    bytes = math.add(bytes, math.mul(copies, static_cast<Count>(format.first.there + format.second.there)));
  });
  bytes = math.mul(bytes, count);
  if (math.overflow())
    return Error(Errc::value_too_large, "the packed size does not fit 64 bits: pack fewer elements");
  return bytes;
}

Status pack_external(const Datatype& type, Count count, const void* buf, void* out) {
  const Count bytes = type.size() * count;
  const auto native = stage(bytes);
  if (native == nullptr) return no_memory(bytes);
  pack(type, count, buf, 0, native.get(), static_cast<size_t>(bytes));
  convert(type, count, native.get(), static_cast<char*>(out), Direction::out);
  return {};
}

Status unpack_external(const Datatype& type, Count count, void* buf, const void* in) {
  const Count bytes = type.size() * count;
  const auto native = stage(bytes);
  if (native == nullptr) return no_memory(bytes);
  convert(type, count, native.get(), const_cast<char*>(static_cast<const char*>(in)), Direction::in);
  unpack(type, count, buf, 0, native.get(), static_cast<size_t>(bytes));
  return {};
}

}  // namespace weft::datatype
