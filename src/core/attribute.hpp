// SPDX-License-Identifier: BSD-3-Clause
// Attributes and their keys (MPI 5.0 section 7.7) of communicators, datatypes and windows.
// Threading: under the instance lock, which is released around user callbacks.
#pragma once
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "datatype/datatype.hpp"

namespace weft::core {

class Instance;

enum class Attributed : uint8_t { communicator, datatype, window };

/// A key created by MPI_{Comm,Type,Win}_create_keyval. The callbacks share one C signature: the object's
/// handle has the size of a pointer for all three kinds.
struct Keyval {
  using Copy = int (*)(void* object, int keyval, void* extra, void* value_in, void* value_out, int* flag);
  using Delete = int (*)(void* object, int keyval, void* value, void* extra);
  Attributed kind;
  Copy copy;      ///< nullptr: MPI_*_NULL_COPY_FN; kDuplicate: MPI_*_DUP_FN
  Delete remove;  ///< nullptr: MPI_*_NULL_DELETE_FN
  void* extra;
  int references = 1;  ///< one for the user until the key is freed, and one per attribute
  bool freed = false;
};

/// The value of MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN in the MPI 5.0 ABI.
inline const auto kDuplicate = reinterpret_cast<Keyval::Copy>(uintptr_t{1});

/// The attributes of one object, deleted in reverse order of creation. Callbacks may call MPI and change the
/// same set.
class AttributeSet {
 public:
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  /// Returns the value, or nullptr with found=false.
  [[nodiscard]] void* get(int keyval, bool& found) const;
  /// Sets or replaces a value; the old value's delete callback runs first. `object`: handle for callbacks.
  [[nodiscard]] Status set(Instance& instance, void* object, int keyval, void* value);
  /// Runs the delete callback, then removes the attribute unless the callback failed. Errc::keyval: not set.
  [[nodiscard]] Status erase(Instance& instance, void* object, int keyval);
  /// Copies to `target` with the copy callbacks (MPI_Comm_dup, MPI_Type_dup); stops at the first error.
  [[nodiscard]] Status copy_to(Instance& instance, void* object, AttributeSet& target) const;
  /// Runs all delete callbacks; stops at the first error.
  [[nodiscard]] Status clear(Instance& instance, void* object);

 private:
  struct Attribute {
    int keyval;
    void* value;
  };
  std::vector<Attribute> entries_;
};

/// Returns the attributes of a datatype, created at first use. MPI_Type_dup copies them; freeing the last
/// handle deletes them.
[[nodiscard]] AttributeSet& attributes_of(datatype::Datatype& type);

/// Creates a key. Predefined keys (MPI_TAG_UB, ...) are handled in api/.
[[nodiscard]] int create_keyval(const Keyval& keyval);
/// Marks a key freed; it is destroyed with its last attribute. Freeing it again has no effect.
[[nodiscard]] Status free_keyval(int keyval, Attributed kind);
/// Returns the key; nullptr: no such key of this kind. A freed key can be found, and its attributes read and
/// deleted, until its last attribute is deleted (MPI 5.0 section 7.7.2).
[[nodiscard]] Keyval* find_keyval(int keyval, Attributed kind);

}  // namespace weft::core
