// SPDX-License-Identifier: BSD-3-Clause
// Limit: bounds the number of requests that hold a scarce resource at a time.
#pragma once
#include <cstdint>
#include <utility>

#include "base/assert.hpp"

namespace weft::p2p {

class Limit {
 public:
  /// One use of the resource, until destruction; empty if acquire() refused it.
  class Use {
   public:
    Use() = default;
    explicit Use(Limit& limit) : limit_(&limit) { ++limit.used_; }
    Use(Use&& other) noexcept : limit_(std::exchange(other.limit_, nullptr)) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(limit_, other.limit_);
      return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { release(); }
    void release() {
      Limit* const limit = std::exchange(limit_, nullptr);
      if (limit == nullptr) return;
      WEFT_ASSERT(limit->used_ != 0);
      --limit->used_;
    }
    [[nodiscard]] explicit operator bool() const { return limit_ != nullptr; }

   private:
    Limit* limit_ = nullptr;
  };

  explicit Limit(uint32_t max) : max_(max) {}
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  [[nodiscard]] Use acquire() { return used_ < max_ ? Use(*this) : Use(); }
  [[nodiscard]] uint32_t used() const { return used_; }

 private:
  uint32_t used_ = 0, max_;
};

}  // namespace weft::p2p
