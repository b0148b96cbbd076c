// SPDX-License-Identifier: BSD-3-Clause
// Dispatch and combine of a mixture of experts by kernels: each token is put to the rank of its expert, which
// transforms it and puts the result back. The same code on one host and between hosts. Rank r has expert r.
#pragma once
#include <cstdint>

#include "weft_device.cuh"

#ifdef __CUDACC__
#define TOKENS_FUNCTION __host__ __device__
#else
#define TOKENS_FUNCTION inline
#endif

namespace tokens {

enum : uint32_t { dispatched = 0, combined = 1, notifications = 2 };

/// The window memory of a rank, in words of 4 bytes: for each source rank a count, the numbers of its tokens,
/// and the tokens; then the results for the own tokens.
struct Layout {
  int ranks, tokens, width;  ///< tokens of a rank; floats of a token
  TOKENS_FUNCTION uint64_t count(int source) const {
    return static_cast<uint64_t>(source) * static_cast<uint64_t>(1 + tokens + tokens * width);
  }
  TOKENS_FUNCTION uint64_t number(int source, int slot) const {
    return count(source) + 1 + static_cast<uint64_t>(slot);
  }
  TOKENS_FUNCTION uint64_t token(int source, int slot) const {
    return number(source, tokens) + static_cast<uint64_t>(slot) * static_cast<uint64_t>(width);
  }
  TOKENS_FUNCTION uint64_t result(int token_number) const {
    return count(ranks) + static_cast<uint64_t>(token_number) * static_cast<uint64_t>(width);
  }
  TOKENS_FUNCTION uint64_t words() const { return result(tokens); }
};

using weft::device::Error;
using weft::device::Target;
using weft::device::Window;

/// Puts the tokens whose expert is `to` there: one scope for each rank.
template <class Scope>
WEFT_DEVICE_FUNCTION Error dispatch(Scope scope, const Window& window, const Layout& layout, int to,
                                    const float* data, const int* experts) {
  const Target target = window.target(to);
  int slot = 0;
  for (int i = 0; i < layout.tokens; ++i) {
    if (experts[i] != to) continue;
    const uint64_t bytes = static_cast<uint64_t>(layout.width) * sizeof(float);
    Error error =
        target.put(scope, layout.token(window.rank(), slot), data + int64_t{i} * layout.width, bytes);
    if (error == Error::none) error = target.put(scope, layout.number(window.rank(), slot), &i, sizeof i);
    if (error != Error::none) return error;
    ++slot;
  }
  return target.put_notify(scope, layout.count(window.rank()), &slot, sizeof slot, dispatched);
}

/// Transforms the tokens of a rank and puts the results back: one scope for each rank, after `dispatched` has
/// arrived from all.
template <class Scope>
WEFT_DEVICE_FUNCTION Error combine(Scope scope, const Window& window, const Layout& layout, int source) {
  auto* const own = static_cast<float*>(window.peer_pointer(window.rank()));
  const auto* const numbers = reinterpret_cast<const volatile int*>(own);
  const int count = numbers[layout.count(source)];
  const Target target = window.target(source);
  for (int slot = 0; slot < count; ++slot) {
    volatile float* const token = own + layout.token(source, slot);
    for (int i = static_cast<int>(scope.index()); i < layout.width; i += static_cast<int>(scope.count()))
      token[i] = token[i] * static_cast<float>(window.rank() + 1);  // the expert
    scope.sync();
    const Error error =
        target.put(scope, layout.result(numbers[layout.number(source, slot)]),
                   own + layout.token(source, slot), static_cast<uint64_t>(layout.width) * sizeof(float));
    if (error != Error::none) return error;
  }
  return target.notify(scope, combined);
}

/// A round: `first`, `stride`: the ranks that this scope serves. A scope that waits is the only one of its
/// GPU
/// (`waits`), and the others wait for it with `meet`.
template <class Scope, class Meet>
WEFT_DEVICE_FUNCTION Error round(Scope scope, const Window& window, const Layout& layout, const float* data,
                                 const int* experts, int first, int stride, Meet&& meet) {
  Error error = Error::none;
  const auto all = static_cast<uint64_t>(window.size());
  for (int to = first; to < window.size() && error == Error::none; to += stride)
    error = dispatch(scope, window, layout, to, data, experts);
  if (first == 0 && error == Error::none) error = window.wait_notify(scope, dispatched, all);
  error = meet(error);
  for (int from = first; from < window.size() && error == Error::none; from += stride)
    error = combine(scope, window, layout, from);
  if (first == 0 && error == Error::none) error = window.wait_notify(scope, combined, all);
  return meet(error);
}

}  // namespace tokens
