// SPDX-License-Identifier: BSD-3-Clause
// external32: packs in the native format, then converts the stream number by number along the type signature.
#include "datatype/external.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "datatype/signature.hpp"

namespace weft::datatype {
namespace {

/// Representation of one number: native and external size in bytes, and the conversion besides byte order.
struct Number {
  enum class Kind : uint8_t { opaque, integer, unsigned_integer, extended };
  size_t native_bytes = 0, external_bytes = 0;
  Kind kind = Kind::integer;
};

/// The one or two numbers of an element of a basic type.
struct Format {
  Number first, second;  ///< second.native_bytes == 0: one number
};

Number plain(size_t bytes) { return {bytes, bytes, Number::Kind::integer}; }

template <class T>
Number number_of() {
  if constexpr (std::is_same_v<T, long double>) {
    // External format: IEEE binary128. The native format may differ at the same size.
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

/// MPI_LONG, MPI_UNSIGNED_LONG and the long of MPI_LONG_INT have 4 bytes in external32.
constexpr uintptr_t kLong = 0x20a, kUnsignedLong = 0x20e, kLongInt = 0x22a;

Format format_of(const Datatype& type) {
  const Number external_long = {sizeof(long), 4, Number::Kind::integer};
  switch (type.handle()) {
    case kLong:
      return {external_long, {}};
    case kUnsignedLong:
      return {{sizeof(long), 4, Number::Kind::unsigned_integer}, {}};
    case kLongInt:
      return {external_long, plain(sizeof(int))};
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

constexpr bool kLittleEndian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

/// Converts between native and big-endian byte order.
void copy_big_endian(char* to, const char* from, size_t n) {
  if constexpr (kLittleEndian)
    std::reverse_copy(from, from + n, to);
  else
    std::memcpy(to, from, n);
}

/// Truncates or sign-extends an integer of `from_size` bytes to `to_size`. Native byte order.
void resize(char* to, size_t to_size, const char* from, size_t from_size, bool is_signed) {
  unsigned char little[16];
  for (size_t i = 0; i < from_size; ++i)
    little[i] = static_cast<unsigned char>(kLittleEndian ? from[i] : from[from_size - 1 - i]);
  const bool negative = is_signed && (little[from_size - 1] & 0x80) != 0;
  for (size_t i = from_size; i < to_size; ++i) little[i] = negative ? 0xFF : 0;
  for (size_t i = 0; i < to_size; ++i) to[kLittleEndian ? i : to_size - 1 - i] = static_cast<char>(little[i]);
}

/// Returns false for an integer that does not fit its external size.
bool write_external(const Number& number, const char* native, char* external) {
  char fitted[16];
  switch (number.kind) {
    case Number::Kind::extended: {
      long double value;
      std::memcpy(&value, native, sizeof value);
      const auto wide = static_cast<Float128>(value);
      std::memcpy(fitted, &wide, sizeof wide);
      copy_big_endian(external, fitted, sizeof wide);
      return true;
    }
    default: {
      if (number.native_bytes == number.external_bytes) {
        copy_big_endian(external, native, number.native_bytes);
        return true;
      }
      const bool is_signed = number.kind == Number::Kind::integer;
      resize(fitted, number.external_bytes, native, number.native_bytes, is_signed);
      copy_big_endian(external, fitted, number.external_bytes);
      char back[16];
      resize(back, number.native_bytes, fitted, number.external_bytes, is_signed);
      return std::memcmp(back, native, number.native_bytes) == 0;
    }
  }
}

void read_external(const Number& number, const char* external, char* native) {
  char fitted[16];
  switch (number.kind) {
    case Number::Kind::extended: {
      Float128 wide;
      copy_big_endian(fitted, external, sizeof wide);
      std::memcpy(&wide, fitted, sizeof wide);
      const auto value = static_cast<long double>(wide);
      std::memset(native, 0, sizeof value);
      std::memcpy(native, &value, sizeof value);
      return;
    }
    default:
      if (number.native_bytes == number.external_bytes)
        return copy_big_endian(native, external, number.native_bytes);
      copy_big_endian(fitted, external, number.external_bytes);
      resize(native, number.native_bytes, fitted, number.external_bytes,
             number.kind == Number::Kind::integer);
  }
}

enum class Direction : uint8_t { to_external, to_native };

/// Converts between a packed native stream and an external32 stream. Returns false if an integer was cut.
bool convert(const Datatype& type, Count count, char* native, char* external, Direction direction) {
  bool all_fit = true;
  for_each_basic(type, count, [&](const Datatype& basic, Count copies) {
    const Format format = format_of(basic);
    for (; copies > 0; --copies) {
      for (const Number& number : {format.first, format.second}) {
        if (number.native_bytes == 0) continue;
        if (direction == Direction::to_external)
          all_fit &= write_external(number, native, external);
        else
          read_external(number, external, native);
        native += number.native_bytes;
        external += number.external_bytes;
      }
    }
  });
  return all_fit;
}

/// Buffer for a native stream; null if memory is exhausted.
std::unique_ptr<char[]> allocate_stream(Count bytes) {
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
    bytes = math.add(bytes, math.mul(copies, static_cast<Count>(format.first.external_bytes +
                                                                format.second.external_bytes)));
  });
  bytes = math.mul(bytes, count);
  if (math.overflow())
    return Error(Errc::value_too_large,
                 "count = " + std::to_string(count) +
                     " elements: the packed size does not fit 64 bits: pass a smaller count");
  return bytes;
}

Status pack_external(const Datatype& type, Count count, const void* buf, void* out) {
  const Count bytes = type.size() * count;
  const auto native = allocate_stream(bytes);
  if (native == nullptr) return no_memory(bytes);
  pack(type, count, buf, 0, native.get(), static_cast<size_t>(bytes));
  if (!convert(type, count, native.get(), static_cast<char*>(out), Direction::to_external))
    return Error(Errc::value_too_large,
                 "an integer is too large for external32, which has 4 bytes for MPI_LONG and "
                 "MPI_UNSIGNED_LONG, and 2 for MPI_WCHAR: use MPI_INT64_T, MPI_UINT64_T or MPI_UINT32_T");
  return {};
}

Status unpack_external(const Datatype& type, Count count, void* buf, const void* in) {
  const Count bytes = type.size() * count;
  const auto native = allocate_stream(bytes);
  if (native == nullptr) return no_memory(bytes);
  convert(type, count, native.get(), const_cast<char*>(static_cast<const char*>(in)), Direction::to_native);
  unpack(type, count, buf, 0, native.get(), static_cast<size_t>(bytes));
  return {};
}

}  // namespace weft::datatype
