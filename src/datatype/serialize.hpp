// SPDX-License-Identifier: BSD-3-Clause
// Datatypes as bytes, for a peer that has to read or write memory in the layout of somebody else's type
// (one-sided operations). Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "datatype/datatype.hpp"

namespace weft::datatype {

/// The constructors that made `type`, without names and attributes: each distinct type once, old types first.
/// The bytes are valid on processes of the same architecture.
[[nodiscard]] std::vector<std::byte> serialize(const Datatype& type);
/// Rebuilds what serialize() wrote, committed; one reference belongs to the caller. Errc::type if the bytes
/// are not such: they may come from anywhere, and nothing outside them is read.
[[nodiscard]] DatatypeResult deserialize(std::span<const std::byte> bytes);

/// Returns a type that stands for a predefined type, with one open handle, or null to keep that type.
using Replace = std::function<DatatypeResult(Datatype& basic)>;
/// Rebuilds `type` from replaced predefined types, committed; one reference belongs to the caller. Returns
/// `type` itself if all predefined types are kept.
[[nodiscard]] DatatypeResult with_replaced_types(Datatype& type, const Replace& replace);

/// The types that peers have sent, rebuilt once each; least recently used types are forgotten above the
/// limit.
class RemoteTypes {
 public:
  explicit RemoteTypes(size_t limit = 1024) : limit_(limit) {}
  RemoteTypes(const RemoteTypes&) = delete;
  RemoteTypes& operator=(const RemoteTypes&) = delete;
  ~RemoteTypes();
  /// The type that `peer` calls `id`; null if it is not known (any more): the peer has to send it.
  [[nodiscard]] Datatype* find(uint32_t peer, uint64_t id);
  /// Rebuilds a type that `peer` calls `id` from now on. The cache keeps the reference.
  [[nodiscard]] DatatypeResult add(uint32_t peer, uint64_t id, std::span<const std::byte> bytes);
  /// Forgets all types of a peer.
  void forget(uint32_t peer);
  [[nodiscard]] size_t size() const { return types_.size(); }

 private:
  struct Key {
    uint32_t peer;
    uint64_t id;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const { return (key.id * 0x9e3779b97f4a7c15ULL) ^ key.peer; }
  };
  struct Known {
    Datatype* type;
    uint64_t used;  ///< value of clock_ at the last use
  };
  void evict();
  std::unordered_map<Key, Known, Hash> types_;
  uint64_t clock_ = 0;
  size_t limit_;
};

}  // namespace weft::datatype
