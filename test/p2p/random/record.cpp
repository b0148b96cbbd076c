// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/random/record.hpp"

#include <cstring>
#include <set>
#include <tuple>

namespace randomized {
namespace {

char byte_of(const Envelope& envelope, int i) {
  return static_cast<char>(envelope.source * 31 + envelope.thread * 17 + envelope.number * 7 + i + (i >> 8));
}

std::string describe(const Receipt& receipt) {
  const auto filter = [](int value) { return value == kAny ? std::string("any") : std::to_string(value); };
  std::string text = "receive " + std::to_string(receipt.posted) + " (comm " + std::to_string(receipt.comm) +
                     ", source " + filter(receipt.source) + ", tag " + filter(receipt.tag) + ")";
  if (receipt.cancelled) return text + " got nothing";
  return text + " got message " + std::to_string(receipt.got.number) + " of thread " +
         std::to_string(receipt.got.thread) + " in " + std::to_string(receipt.got.source) + " (tag " +
         std::to_string(receipt.got.tag) + ")";
}

/// Returns whether `late`, posted after `early` by the same thread, got a message that `early` had to match.
bool overtakes(const Receipt& early, const Receipt& late) {
  if (early.thread != late.thread || early.posted >= late.posted || late.cancelled ||
      !early.accepts(late.got))
    return false;
  if (early.cancelled) return late.ended < early.ended;
  return early.got.source == late.got.source && early.got.thread == late.got.thread &&
         early.got.number > late.got.number;
}

}  // namespace

void write_message(char* at, const Envelope& envelope) {
  std::memcpy(at, &envelope, sizeof envelope);
  for (int i = sizeof envelope; i < envelope.bytes; ++i) at[i] = byte_of(envelope, i);
}

std::string check_message(const char* at) {
  Envelope envelope;
  std::memcpy(&envelope, at, sizeof envelope);
  for (int i = sizeof envelope; i < envelope.bytes; ++i)
    if (at[i] != byte_of(envelope, i))
      return "byte " + std::to_string(i) + " of " + std::to_string(envelope.bytes) + " is wrong";
  return "";
}

std::string check_order(const std::vector<Receipt>& receipts) {
  std::set<std::tuple<int, int, int>> seen;
  for (const Receipt& receipt : receipts) {
    if (receipt.cancelled) continue;
    if (!receipt.accepts(receipt.got)) return describe(receipt) + ", which it does not accept";
    if (!seen.insert({receipt.got.source, receipt.got.thread, receipt.got.number}).second)
      return describe(receipt) + ", which was received before";
  }
  for (const Receipt& early : receipts)
    for (const Receipt& late : receipts)
      if (overtakes(early, late)) return describe(early) + "; but " + describe(late);
  return "";
}

}  // namespace randomized
