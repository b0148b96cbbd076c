// SPDX-License-Identifier: BSD-3-Clause
// The predefined types: created on first use, never destroyed.
#include "datatype/predefined.hpp"

#include <array>

namespace weft::datatype {
namespace {

static_assert(sizeof(long) == 8 && sizeof(long long) == 8 && sizeof(void*) == 8, "the table assumes LP64");

constexpr uintptr_t kFirst = 0x200, kSlots = 0x100;

struct Predefined {
  std::array<Datatype*, kSlots> by_slot{};
  std::vector<Datatype*> all;

  Predefined() {
#define WEFT_X(value, name, basic) add(value, name, Basic::basic);
    WEFT_PREDEFINED_TYPES(WEFT_X)
#undef WEFT_X
  }
  void add(uintptr_t handle, const char* name, Basic basic) {
    all.push_back(by_slot[handle - kFirst] = new Datatype(handle, name, basic));
  }
};

const Predefined& table() {
  static const auto* types = new Predefined;
  return *types;
}

}  // namespace

Datatype* predefined(uintptr_t handle) {
  const uintptr_t slot = handle - kFirst;
  return slot < kSlots ? table().by_slot[slot] : nullptr;
}

std::span<Datatype* const> all_predefined() { return table().all; }

}  // namespace weft::datatype
