// SPDX-License-Identifier: BSD-3-Clause
#include "topo/dims.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace weft::topo {
namespace {

std::vector<int> divisors_of(int n) {
  std::vector<int> low, high;
  for (int i = 1; int64_t{i} * i <= n; ++i) {
    if (n % i != 0) continue;
    low.push_back(i);
    if (n / i != i) high.push_back(n / i);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Whether `base` to the power `exponent` is at least n.
bool reaches(int base, size_t exponent, int n) {
  int64_t power = 1;
  while (exponent-- > 0 && power < n) power *= base;
  return power >= n;
}

/// Factors of n into `factors`, none above `most` and none above the one before it, lexicographically least.
bool factorize(int n, std::span<int> factors, int most, const std::vector<int>& divisors) {
  if (factors.empty()) return n == 1;
  for (const int divisor : divisors) {  // ascending
    if (divisor > most) break;
    if (n % divisor != 0 || !reaches(divisor, factors.size(), n)) continue;
    factors[0] = divisor;
    if (factorize(n / divisor, factors.subspan(1), divisor, divisors)) return true;
  }
  return false;
}

}  // namespace

Status balance(int size, std::span<int> dims) {
  int64_t fixed = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      return Error(Errc::dims,
                   "dims[" + std::to_string(i) + "] = " + std::to_string(dims[i]) + ": must not be negative");
    if (dims[i] > 0 && fixed <= size) fixed *= dims[i];
  }
  const auto open = static_cast<size_t>(std::count(dims.begin(), dims.end(), 0));
  if (size % fixed != 0 || (open == 0 && fixed != size))
    return Error(Errc::dims, "nnodes = " + std::to_string(size) +
                                 (open == 0 ? " is not" : " is not a multiple of") +
                                 " the product of the dimensions given, " + std::to_string(fixed));
  std::vector<int> factors(open);
  const int rest = static_cast<int>(size / fixed);
  factorize(rest, factors, rest, divisors_of(rest));
  auto next = factors.begin();
  for (int& dim : dims)
    if (dim == 0) dim = *next++;
  return {};
}

}  // namespace weft::topo
