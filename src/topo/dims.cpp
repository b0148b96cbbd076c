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

/// True if `base` to the power `exponent` is greater than n.
bool exceeds(int64_t base, size_t exponent, int n) {
  int64_t power = 1;
  while (exponent-- > 0 && power <= n && base > 1) power *= base;
  return power > n;
}

/// Branch and bound over the non-increasing factorizations of n.
class FactorSearch {
 public:
  FactorSearch(int n, size_t factors) : divisors_(divisors_of(n)), current_(factors) {
    if (factors > 0) assign(0, n);
  }
  [[nodiscard]] const std::vector<int>& best() const { return best_; }

 private:
  [[nodiscard]] int spread(const std::vector<int>& factors) const { return factors.front() - factors.back(); }
  /// True for a smaller spread; on a tie for a larger smallest factor, then second smallest, etc.
  [[nodiscard]] bool better() const {
    if (best_.empty() || spread(current_) != spread(best_))
      return best_.empty() || spread(current_) < spread(best_);
    return std::lexicographical_compare(best_.rbegin(), best_.rend(), current_.rbegin(), current_.rend());
  }
  void assign(size_t i, int remaining) {
    const size_t unset = current_.size() - i;
    if (unset == 0) {
      if (remaining == 1 && better()) best_ = current_;
      return;
    }
    for (const int divisor : divisors_) {  // ascending; the candidate for factor i
      if (i > 0 && divisor > current_[i - 1]) break;
      if (remaining % divisor != 0 || !exceeds(divisor, unset, remaining - 1)) continue;
      current_[i] = divisor;
      // Bound: the smallest factor must be at least `lower_bound` to improve the spread.
      const int lower_bound = best_.empty() ? 1 : std::max(1, current_[0] - spread(best_));
      if (exceeds(lower_bound, unset, remaining)) {
        if (i == 0) break;  // larger divisors raise the bound further
        continue;
      }
      if (divisor >= lower_bound) assign(i + 1, remaining / divisor);
    }
  }

  std::vector<int> divisors_, current_, best_;
};

}  // namespace

Status balance(int size, std::span<int> dims) {
  int64_t fixed = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      return Error(Errc::dims,
                   "dims[" + std::to_string(i) + "] = " + std::to_string(dims[i]) + ": must not be negative");
    if (dims[i] > 0 && fixed <= size) fixed *= dims[i];
  }
  const auto unset = static_cast<size_t>(std::count(dims.begin(), dims.end(), 0));
  if (size % fixed != 0 || (unset == 0 && fixed != size))
    return Error(Errc::dims, "nnodes = " + std::to_string(size) +
                                 (unset == 0 ? " is not" : " is not a multiple of") +
                                 " the product of the dimensions given, " + std::to_string(fixed));
  const int remaining = static_cast<int>(size / fixed);
  const FactorSearch factors(remaining, unset);
  auto next = factors.best().begin();
  for (int& dim : dims)
    if (dim == 0) dim = *next++;
  return {};
}

}  // namespace weft::topo
