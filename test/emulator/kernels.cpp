// SPDX-License-Identifier: BSD-3-Clause
// The kernels of the emulated GPU: those of Weft, by the contract of device/kernel/copy.hpp, and
// `emucuda_spin(flag, value)`, which runs until the 32-bit word at `flag` has the value.
#include <cstring>

#include "device/kernel/copy.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

namespace contract = weft::device::kernel;

template <class T>
T parameter(void** parameters, size_t index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

bool copy(const ContextObject& context, uint64_t dst, uint64_t src, uint64_t bytes) {
  if (bytes == 0) return true;
  char* to = reach_from(context, dst, bytes);
  const char* from = reach_from(context, src, bytes);
  if (to == nullptr || from == nullptr) return false;
  std::memmove(to, from, bytes);
  return true;
}

class CopyList : public Kernel {
 public:
  CopyList(ContextObject& context, void** parameters)
      : context_(context), list_(parameter<contract::List>(parameters, 0)) {}
  Turn turn(uint64_t) override {
    if (list_.count > contract::List::kMax) return Turn::illegal_address;
    // The blocks of a real launch take the list in any order.
    for (uint32_t i = list_.count; i-- != 0;)
      if (!copy(context_, list_.items[i].dst, list_.items[i].src, list_.items[i].bytes))
        return Turn::illegal_address;
    return Turn::ended;
  }

 private:
  ContextObject& context_;
  contract::List list_;
};

class Copier : public Kernel {
 public:
  Copier(ContextObject& context, void** parameters)
      : context_(context), p_(parameter<contract::Copier>(parameters, 0)) {}
  [[nodiscard]] bool is_copier() const override { return true; }

  Turn turn(uint64_t time) override {
    ring_ = map<contract::Command>(p_.ring, contract::Copier::kSlots);
    status_ = map<uint64_t>(p_.status, 1);
    memory_ = map<contract::Copier::Memory>(p_.memory, 1);
    if (ring_ == nullptr || status_ == nullptr || memory_ == nullptr) return Turn::illegal_address;
    if (begin_ == 0 && !arrive(time)) return leave();
    if (time - begin_ >= p_.life || time - last_ >= p_.linger || leaves_at_random()) return leave();
    contract::Item item{};
    if (!take(item)) return Turn::idle;
    if (!copy(context_, item.dst, item.src, item.bytes)) return Turn::illegal_address;
    done_ = next_;
    next_ = after(next_);
    idle_ = false;
    last_ = time;
    report(gone_);
    return Turn::worked;
  }

 private:
  template <class T>
  T* map(uint64_t address, size_t count) {
    return reinterpret_cast<T*>(reach_from(context_, address, count * sizeof(T)));
  }

  static uint32_t after(uint32_t sequence) { return sequence + 1 != 0 ? sequence + 1 : 1; }

  /// The first turn; false: there is nothing to stay for.
  bool arrive(uint64_t time) {
    begin_ = last_ = time;
    const uint64_t status = __atomic_load_n(status_, __ATOMIC_ACQUIRE);
    done_ = static_cast<uint32_t>(status);
    gone_ = static_cast<uint32_t>(status >> 32);
    next_ = p_.first != 0 ? p_.first : memory_->next;
    return p_.first != 0 || memory_->idle == 0;
  }

  /// The next command, if its whole line is there.
  bool take(contract::Item& item) {
    uint32_t words[8];
    const contract::Command& line = ring_[next_ % contract::Copier::kSlots];
    for (size_t i = 0; i < 8; ++i) {
      const uint64_t pair =
          __atomic_load_n(reinterpret_cast<const uint64_t*>(&line.pairs[i]), __ATOMIC_ACQUIRE);
      if (static_cast<uint32_t>(pair >> 32) != next_) return false;
      words[i] = static_cast<uint32_t>(pair);
    }
    item = {words[0] | uint64_t{words[1]} << 32, words[2] | uint64_t{words[3]} << 32, words[4]};
    return true;
  }

  Turn leave() {
    memory_->next = next_;
    memory_->idle = idle_ ? 1 : 0;
    report(p_.generation);
    return Turn::ended;
  }

  void report(uint32_t gone) { __atomic_store_n(status_, done_ | uint64_t{gone} << 32, __ATOMIC_RELEASE); }

  static bool leaves_at_random() {
    uint32_t& random = world().random;
    if (random == 0) return false;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    return random % 16 == 0;
  }

  ContextObject& context_;
  const contract::Copier p_;
  contract::Command* ring_ = nullptr;
  uint64_t* status_ = nullptr;
  contract::Copier::Memory* memory_ = nullptr;
  uint64_t begin_ = 0, last_ = 0;
  uint32_t next_ = 0, done_ = 0, gone_ = 0;
  bool idle_ = true;
};

class Spin : public Kernel {
 public:
  Spin(ContextObject& context, void** parameters)
      : context_(context),
        flag_(parameter<Address>(parameters, 0)),
        value_(parameter<uint32_t>(parameters, 1)) {}
  Turn turn(uint64_t) override {
    const char* flag = reach_from(context_, flag_, sizeof(uint32_t));
    if (flag == nullptr) return Turn::illegal_address;
    const uint32_t seen = __atomic_load_n(reinterpret_cast<const uint32_t*>(flag), __ATOMIC_ACQUIRE);
    return seen == value_ ? Turn::ended : Turn::idle;
  }

 private:
  ContextObject& context_;
  Address flag_;
  uint32_t value_;
};

template <class K>
std::unique_ptr<Kernel> create(ContextObject& context, void** parameters) {
  return std::make_unique<K>(context, parameters);
}

}  // namespace

const KernelEntry* find_kernel(const char* name) {
  static const KernelEntry entries[] = {
      {"weft_copy_list", create<CopyList>}, {"weft_copier", create<Copier>}, {"emucuda_spin", create<Spin>}};
  for (const KernelEntry& entry : entries)
    if (std::strcmp(entry.name, name) == 0) return &entry;
  return nullptr;
}

}  // namespace emucuda
