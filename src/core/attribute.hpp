// SPDX-License-Identifier: BSD-3-Clause
// Attributes and their keys (MPI 5.0 section 7.7), for communicators, datatypes and windows.
// Threading: under the instance lock, which is released around the user's callbacks.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::core {

class Instance;

enum class Attributed : uint8_t { communicator, datatype, window };

/// One key value made by MPI_{Comm,Type,Win}_create_keyval. The callbacks share one C shape:
/// the object's handle is a pointer-sized value for all three kinds.
struct Keyval {
  using Copy = int (*)(void* object, int keyval, void* extra, void* value_in, void* value_out, int* flag);
  using Delete = int (*)(void* object, int keyval, void* value, void* extra);
  Attributed kind;
  Copy copy;      ///< nullptr: MPI_*_NULL_COPY_FN; kDuplicate: MPI_*_DUP_FN
  Delete remove;  ///< nullptr: MPI_*_NULL_DELETE_FN
  void* extra;
  int references = 1;  ///< the user's, until freed, and one for each attribute that exists
  bool freed = false;
};

/// The MPI 5.0 ABI's value of MPI_COMM_DUP_FN and its siblings.
inline const auto kDuplicate = reinterpret_cast<Keyval::Copy>(uintptr_t{1});

/// The attributes of one object, deleted in the reverse order of their setting. Callbacks may call MPI, and
/// may change this very set.
class AttributeSet {
 public:
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  /// The value, or nullptr with found=false.
  [[nodiscard]] void* get(int keyval, bool& found) const;
  /// Replaces; the old value's delete callback runs first. `object` is the handle for callbacks.
  [[nodiscard]] Status set(Instance& instance, void* object, int keyval, void* value);
  /// Runs the delete callback; when it fails the attribute stays. Errc::keyval: not set.
  [[nodiscard]] Status erase(Instance& instance, void* object, int keyval);
  /// Copies to `target` by the copy callbacks (MPI_Comm_dup, MPI_Type_dup); stops at the first error.
  [[nodiscard]] Status copy_to(Instance& instance, void* object, AttributeSet& target) const;
  /// Runs all delete callbacks; stops at the first error.
  [[nodiscard]] Status clear(Instance& instance, void* object);

 private:
  struct Entry {
    int keyval;
    void* value;
  };
  std::vector<Entry> entries_;
};

/// The attributes of a datatype, made on first need. MPI_Type_dup copies them, the free of the last handle
/// clears them.
[[nodiscard]] AttributeSet& attributes_of(datatype::Datatype& type);

/// Keys. Predefined keys (MPI_TAG_UB, ...) are not here: api/ answers them.
[[nodiscard]] int create_keyval(const Keyval& keyval);
/// The key goes with its last attribute; until then it can be freed again, to no effect.
[[nodiscard]] Status free_keyval(int keyval, Attributed kind);
/// nullptr when there is no such key of this kind. One that was freed is there as long as it has attributes,
/// which can be read and deleted with it (MPI 5.0 section 7.7.2).
[[nodiscard]] Keyval* find_keyval(int keyval, Attributed kind);

}  // namespace weft::core
