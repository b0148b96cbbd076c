// SPDX-License-Identifier: BSD-3-Clause
// Kernels of windows: the code of the GPU with host addresses, several elements per turn.
#include "device/kernel/window.hpp"

#include <algorithm>
#include <cstring>

#include "device/kernel/accumulate.hpp"
#include "weft_device.cuh"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel;

class Accumulate : public Kernel {
 public:
  Accumulate(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&params_, parameters[0], sizeof params_);
  }
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override { return std::make_unique<Accumulate>(*this); }

  Turn turn(uint64_t) override {
    constexpr uint64_t kPerTurn = 1 << 14;
    const uint64_t end = std::min(params_.count, next_ + kPerTurn);
    for (; next_ < end; ++next_) {
      contract::Accumulate one = params_;  // with the addresses of this element
      one.target = host(params_.at(next_));
      if (one.kind != contract::Accumulate::fetch) one.origin = host(params_.origin + next_ * params_.size);
      if (one.kind == contract::Accumulate::compare_swap)
        one.compare = host(params_.compare + next_ * params_.size);
      if (one.result != 0) one.result = host(params_.result + next_ * params_.size);
      if (refused_) return Turn::illegal_address;
      contract::accumulate_element<false>(one, 0);
    }
    return next_ < params_.count ? Turn::worked : Turn::ended;
  }

 private:
  /// Translates the address of an element, which the hardware requires to be aligned.
  uint64_t host(uint64_t address) {
    const char* found =
        address % params_.size == 0 ? translate_for(context_, address, params_.size) : nullptr;
    if (found == nullptr) refused_ = true;
    return reinterpret_cast<uint64_t>(found);
  }

  ContextObject& context_;
  contract::Accumulate params_{};
  uint64_t next_ = 0;
  bool refused_ = false;
};

class WindowSync : public Kernel {
 public:
  WindowSync(ContextObject& context, void** parameters) : context_(context) {
    std::memcpy(&params_, parameters[0], sizeof params_);
  }
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override { return std::make_unique<WindowSync>(*this); }

  Turn turn(uint64_t) override {
    if (table_.empty() && !load_table()) return Turn::illegal_address;
    const weft::device::Window window(table_.data());
    if (__atomic_load_n(&window.status().cancelled, __ATOMIC_ACQUIRE) != 0) return Turn::ended;
    switch (params_.kind) {
      case contract::WindowSync::notify:
        if (!copy()) return Turn::illegal_address;
        (void)window.notify(weft::device::Thread(), params_.rank, params_.notification);
        return Turn::ended;
      case contract::WindowSync::wait:
        return window.try_take(window.counter_of(params_.notification), params_.value) ? Turn::ended
                                                                                       : Turn::idle;
      default:
        return barrier(window);
    }
  }

 private:
  Turn barrier(const weft::device::Window& window) {
    if (!signalled_)
      for (int i = 0; i < window.size(); ++i)
        if (i != window.rank()) window.signal_barrier(i);
    const bool first = !signalled_;
    signalled_ = true;
    for (; taken_ < window.size(); ++taken_)
      if (taken_ != window.rank() && !window.try_take(static_cast<uint32_t>(taken_), 1))
        return first ? Turn::worked : Turn::idle;
    return Turn::ended;
  }

  /// The copy before a notification.
  [[nodiscard]] bool copy() const {
    if (params_.bytes == 0) return true;
    char* const to = translate_for(context_, params_.to, params_.bytes);
    const char* const from = translate_for(context_, params_.from, params_.bytes);
    if (to == nullptr || from == nullptr || params_.bytes > contract::WindowSync::kCopyBytes) return false;
    std::memcpy(to, from, params_.bytes);
    return true;
  }

  /// Copies the table and translates its addresses.
  bool load_table() {
    const auto* head = reinterpret_cast<const weft::device::abi::WindowTable*>(
        translate_for(context_, params_.table, sizeof(weft::device::abi::WindowTable)));
    if (head == nullptr || head->size <= 0) return false;
    const size_t bytes =
        sizeof *head + static_cast<size_t>(head->size) * sizeof(weft::device::abi::WindowPeer);
    const char* all = translate_for(context_, params_.table, bytes);
    if (all == nullptr) return false;
    table_.assign(all, all + bytes);
    auto* own = reinterpret_cast<weft::device::abi::WindowTable*>(table_.data());
    auto* peers = reinterpret_cast<weft::device::abi::WindowPeer*>(own + 1);
    own->status = translate(own->status, sizeof(weft::device::abi::WindowStatus));
    bool right = own->status != 0;
    for (int i = 0; i < own->size; ++i) {
      const uint64_t words = static_cast<uint64_t>(own->size) + peers[i].notifications;
      peers[i].counters = translate(peers[i].counters, words * sizeof(uint64_t));
      right = right && peers[i].counters != 0;
    }
    if (!right) table_.clear();
    return right;
  }
  uint64_t translate(uint64_t address, uint64_t bytes) {
    return reinterpret_cast<uint64_t>(translate_for(context_, address, bytes));
  }

  ContextObject& context_;
  contract::WindowSync params_{};
  std::vector<char> table_;
  bool signalled_ = false;
  int taken_ = 0;
};

}  // namespace

bool execute_accumulate(ContextObject& context, const contract::Accumulate& call) {
  void* parameters[] = {const_cast<contract::Accumulate*>(&call)};
  Accumulate kernel(context, parameters);
  for (;;) {
    const Kernel::Turn turn = kernel.turn(0);
    if (turn != Kernel::Turn::worked) return turn == Kernel::Turn::ended;
  }
}

std::unique_ptr<Kernel> create_accumulate(ContextObject& context, void** parameters) {
  return std::make_unique<Accumulate>(context, parameters);
}

std::unique_ptr<Kernel> create_window_sync(ContextObject& context, void** parameters) {
  return std::make_unique<WindowSync>(context, parameters);
}

}  // namespace emucuda
