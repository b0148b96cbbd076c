// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/copy.hpp"

#include <cstdint>
#include <cstring>

#include "io/backend/mapping.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace weft::io {

#ifdef __SSE2__
namespace {

constexpr size_t kLineBytes = 64, kPages = 4;

void copy_line(std::byte* to, const std::byte* from) {
  const auto* const source = reinterpret_cast<const __m128i*>(from);
  auto* const target = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(target, a);
  _mm_stream_si128(target + 1, b);
  _mm_stream_si128(target + 2, c);
  _mm_stream_si128(target + 3, d);
}

void copy_lines(std::byte*& to, const std::byte*& from, size_t& n) {
  for (; n >= kLineBytes; to += kLineBytes, from += kLineBytes, n -= kLineBytes) copy_line(to, from);
}

void copy_pages(std::byte*& to, const std::byte*& from, size_t& n) {
  constexpr size_t kGroupBytes = kPages * kPageBytes;
  for (; n >= kGroupBytes; to += kGroupBytes, from += kGroupBytes, n -= kGroupBytes)
    for (size_t line = 0; line < kPageBytes; line += kLineBytes)
      for (size_t page = 0; page < kGroupBytes; page += kPageBytes)
        copy_line(to + page + line, from + page + line);
}

}  // namespace

void copy(CopyMethod method, std::byte* to, const std::byte* from, size_t n) {
  if (method == CopyMethod::cached || n < kPageBytes) {
    std::memcpy(to, from, n);
    return;
  }
  const size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(to) % kLineBytes) % kLineBytes;
  std::memcpy(to, from, head);
  to += head, from += head, n -= head;
  if (method == CopyMethod::pages) copy_pages(to, from, n);
  copy_lines(to, from, n);
  _mm_sfence();  // before other processes learn of the data
  std::memcpy(to, from, n);
}
#else
void copy(CopyMethod, std::byte* to, const std::byte* from, size_t n) { std::memcpy(to, from, n); }
#endif

}  // namespace weft::io
