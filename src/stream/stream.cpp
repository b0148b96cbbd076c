// SPDX-License-Identifier: BSD-3-Clause
#include "stream/stream.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace weft::stream {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Parses the bytes of a pointer in memory order, two hexadecimal digits each.
Result<void*> parse_pointer(std::string_view text) {
  unsigned char bytes[sizeof(void*)];
  bool good = text.size() == 2 * sizeof bytes;
  for (size_t i = 0; good && i < sizeof bytes; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    bytes[i] = static_cast<unsigned char>(high << 4 | low);
  }
  if (!good)
    return Error(Errc::info_value,
                 "the hint value = " + std::string(text) +
                     " is not a stream: set it with MPIX_Info_set_hex(info, \"value\", &stream, "
                     "sizeof stream)");
  void* pointer;
  std::memcpy(&pointer, bytes, sizeof pointer);
  return pointer;
}

/// The index of a hint's value in a list, which begins with the default.
Result<size_t> choice(const core::Info* info, const char* key,
                      std::initializer_list<std::string_view> values) {
  const auto value = info != nullptr ? info->get(key) : std::nullopt;
  if (!value) return size_t{0};
  const auto* const found = std::find(values.begin(), values.end(), std::string_view(*value));
  if (found != values.end()) return static_cast<size_t>(found - values.begin());
  std::string all;
  for (const std::string_view one : values) all.append(all.empty() ? "" : ", ").append(one);
  return Error(Errc::info_value,
               "the hint " + std::string(key) + " = " + std::string(*value) + ": set one of " + all);
}

Result<bool> flag(const core::Info* info, const char* key) {
  auto chosen = choice(info, key, {"false", "true"});
  if (!chosen) return std::move(chosen).error();
  return *chosen == 1;
}

}  // namespace

Result<Stream*> Stream::create(const core::Info* info) {
  std::optional<device::UserStream> gpu;
  const auto type = info != nullptr ? info->get("type") : std::nullopt;
  if (type.has_value()) {
    if (*type != "cudaStream_t")
      return Error(Errc::unsupported,
                   "the hint type = " + std::string(*type) + ": only cudaStream_t is supported");
    const auto value = info->get("value");
    if (!value) return Error(Errc::info_value, "the hint value is missing: it contains the stream");
    auto handle = parse_pointer(*value);
    if (!handle) return std::move(handle).error();
    auto adopted =
        device::is_default_stream(*handle) ? device::default_stream(*handle) : device::adopt_stream(*handle);
    if (!adopted) return std::move(adopted).error();
    gpu = *adopted;
  }
  auto in_order = flag(info, "weft_stream_order");
  if (!in_order) return std::move(in_order).error();
  auto pinned = flag(info, "weft_stream_order_pinned");
  if (!pinned) return std::move(pinned).error();
  auto kernels = choice(info, "weft_stream_kernels", {"false", "true", "prefer"});
  if (!kernels) return std::move(kernels).error();
  Stream* stream = slab().create();
  if (stream == nullptr) return Error(Errc::no_mem, "too many streams: free some");
  stream->gpu = gpu;
  stream->in_order = *in_order;
  stream->pinned_in_order = *pinned;
  stream->prefers_kernels = *kernels != 0;
  stream->kernels_only = *kernels == 1;
  return stream;
}

Slab<Stream>& Stream::slab() {
  static Slab<Stream> streams(size_t{1} << 16);
  return streams;
}

void Stream::destroy() { slab().destroy(this); }

}  // namespace weft::stream
