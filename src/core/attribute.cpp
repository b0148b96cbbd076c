// SPDX-License-Identifier: BSD-3-Clause
// Attributes: the table of keys, and the attribute sets of objects.
#include "core/attribute.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/instance.hpp"

namespace weft::core {
namespace {

constexpr int kFirstKeyval = 0x1000;  // above the ABI's predefined keys

/// All live keys. Numbers are never reused, so stale keys are detected.
struct KeyvalTable {
  std::unordered_map<int, Keyval> keys;
  int next = kFirstKeyval;
};

KeyvalTable& table() {
  static auto* const keyvals = new KeyvalTable;  // outlives static destructors that call MPI
  return *keyvals;
}

void release_keyval(int keyval) {
  const auto found = table().keys.find(keyval);
  if (found != table().keys.end() && --found->second.references == 0) table().keys.erase(found);
}

Error callback_failed(const char* which, int keyval, int code) {
  return Error(Errc::other,
               std::string("the ") + which + " callback of attribute key " + std::to_string(keyval) +
                   " returned code " + std::to_string(code),
               code);
}

/// Keeps a key alive while its callbacks run unlocked.
class KeyvalHold {
 public:
  explicit KeyvalHold(int keyval) : keyval_(keyval), key_(table().keys.at(keyval)) { ++key_.references; }
  ~KeyvalHold() { release_keyval(keyval_); }
  KeyvalHold(const KeyvalHold&) = delete;
  KeyvalHold& operator=(const KeyvalHold&) = delete;
  Keyval* operator->() { return &key_; }

 private:
  int keyval_;
  Keyval& key_;
};

}  // namespace

AttributeSet& attributes_of(datatype::Datatype& type) {
  if (type.attributes == nullptr) type.attributes = std::make_shared<AttributeSet>();
  return *static_cast<AttributeSet*>(type.attributes.get());
}

int create_keyval(const Keyval& keyval) {
  const int number = table().next++;
  table().keys.emplace(number, keyval);
  return number;
}

Keyval* find_keyval(int keyval, Attributed kind) {
  const auto found = table().keys.find(keyval);
  if (found == table().keys.end() || found->second.kind != kind) return nullptr;
  return &found->second;
}

Status free_keyval(int keyval, Attributed kind) {
  Keyval* key = find_keyval(keyval, kind);
  if (key == nullptr) return Error(Errc::keyval, "there is no attribute key " + std::to_string(keyval));
  if (!std::exchange(key->freed, true)) release_keyval(keyval);
  return {};
}

void* AttributeSet::get(int keyval, bool& found) const {
  for (const Attribute& entry : entries_)
    if (entry.keyval == keyval) {
      found = true;
      return entry.value;
    }
  found = false;
  return nullptr;
}

Status AttributeSet::set(Instance& instance, void* object, int keyval, void* value) {
  bool present = false;
  (void)get(keyval, present);
  if (present) WEFT_TRY(erase(instance, object, keyval));
  ++table().keys.at(keyval).references;
  entries_.push_back({keyval, value});
  return {};
}

Status AttributeSet::erase(Instance& instance, void* object, int keyval) {
  bool present = false;
  void* value = get(keyval, present);
  if (!present) return Error(Errc::keyval, "the object has no attribute with key " + std::to_string(keyval));
  KeyvalHold key(keyval);
  if (key->remove != nullptr) {
    const int code = instance.unlocked([&] { return key->remove(object, keyval, value, key->extra); });
    if (code != 0) return callback_failed("delete", keyval, code);
  }
  // The callback may have changed the set: search again, for the value that was deleted.
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Attribute& e) { return e.keyval == keyval && e.value == value; });
  if (entry == entries_.end()) return {};
  entries_.erase(entry);
  release_keyval(keyval);
  return {};
}

Status AttributeSet::copy_to(Instance& instance, void* object, AttributeSet& target) const {
  const std::vector<Attribute> entries = entries_;  // callbacks may change the original
  for (const auto& [keyval, value] : entries) {
    if (table().keys.count(keyval) == 0) continue;  // a callback deleted it
    KeyvalHold key(keyval);
    if (key->copy == nullptr) continue;
    void* copy = value;
    int wanted = 1;
    if (key->copy != kDuplicate) {
      wanted = 0;
      const int code = instance.unlocked([&, key_number = keyval, original = value] {
        return key->copy(object, key_number, key->extra, original, &copy, &wanted);
      });
      if (code != 0) return callback_failed("copy", keyval, code);
    }
    if (wanted == 0) continue;
    ++key->references;
    target.entries_.push_back({keyval, copy});
  }
  return {};
}

Status AttributeSet::clear(Instance& instance, void* object) {
  while (!entries_.empty()) WEFT_TRY(erase(instance, object, entries_.back().keyval));
  return {};
}

}  // namespace weft::core
