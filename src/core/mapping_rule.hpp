// SPDX-License-Identifier: BSD-3-Clause
// MappingRule: when GPU memory of another process is mapped (docs/adr/0052). A mapping is bought once the
// accesses without it have cost as much as it does, so no program pays more than twice the best choice.
// Threading: instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/process_table.hpp"

namespace weft::core {

class MappingRule {
 public:
  /// An allocation and the other process of its mapping.
  struct Key {
    ProcessId peer;
    bool own;            ///< an allocation of this process, which the peer would map; else one of the peer
    uint64_t buffer_id;  ///< of the allocation, in its owner
    bool operator==(const Key&) const = default;
  };
  /// How an access moves its data without the mapping.
  enum class Alternative : uint8_t {
    none,        ///< through memory of the library, or not at all: no side has a mapping
    collective,  ///< of a collective: through regions or bounce buffers of the library
    other_side,  ///< of a put: the receiver moves them, by a mapping of its own or from a bounce buffer
  };
  /// Extra time of an access that has no other path than the mapping.
  static constexpr uint64_t kNoOtherPath = UINT64_MAX;

  /// Whether the first access of any kind maps (gpu.mapping).
  [[nodiscard]] static bool maps_at_once();
  /// Returns whether the mapping is bought already.
  [[nodiscard]] bool bought(const Key& key);
  /// Accounts for one access: `extra_ns` is the time that it takes longer without the mapping, `mapping_ns`
  /// the time that the mapping takes. Returns whether the mapping is bought, from now on.
  [[nodiscard]] bool pays(const Key& key, uint64_t extra_ns, uint64_t mapping_ns,
                          Alternative alternative = Alternative::none);
  /// Forgets a process that has failed.
  void forget(ProcessId peer);
  /// Number of mappings that it knows, bounded.
  [[nodiscard]] size_t entries() const { return spent_ns_.size(); }

 private:
  /// Time that mappings of collectives may cost at once, in all, before they follow the rule of messages.
  struct Advance {
    uint64_t since_ns = 0;  // of the first
    uint64_t spent_ns = 0;
    bool grant(uint64_t mapping_ns);
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return (key.buffer_id * 2 + (key.own ? 1 : 0)) * 0x9e3779b97f4a7c15ULL +
             key.peer * 0xc2b2ae3d27d4eb4fULL;
    }
  };
  static constexpr uint64_t kBought = UINT64_MAX;
  void make_room();

  std::unordered_map<Key, uint64_t, Hash> spent_ns_;  // kBought: the mapping is bought
  Key last_bought_{};
  Advance advance_;
};

}  // namespace weft::core
