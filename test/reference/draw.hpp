// SPDX-License-Identifier: BSD-3-Clause
// Draw: random numbers, the same for all members of a communicator.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <random>

namespace randomized {

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  uint64_t number() { return engine_(); }
  /// Returns a number from 0 to n - 1.
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

/// Returns a value that differs by process, yet is known to all: a function of a drawn number.
inline int mix(uint64_t drawn, int a, int b, int below) {
  uint64_t x = drawn ^ (static_cast<uint64_t>(a) << 32) ^ static_cast<uint64_t>(b) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<int>((x ^ (x >> 31)) % static_cast<uint64_t>(below));
}

}  // namespace randomized
