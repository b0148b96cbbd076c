// SPDX-License-Identifier: BSD-3-Clause
// Attributes: a value of Fortran is an integer of the size of an address. C sees the address of that integer,
// and Fortran sees values that C has set as addresses (MPI 5.0 section 19.3.7).
#include <mutex>
#include <unordered_set>

#include "fortran/convert.hpp"

namespace weft::fortran {

namespace {

/// Integers that Fortran has set, by address. A value in here is Fortran's, any other is C's.
struct Values {
  std::mutex lock;
  std::unordered_set<const void*> set;
};
Values& values() {
  static auto* const known = new Values;  // never destroyed: static destructors may call MPI
  return *known;
}

void* store(MPI_Aint value) {
  auto* const stored = new MPI_Aint(value);
  const std::lock_guard guard(values().lock);
  values().set.insert(stored);
  return stored;
}
void discard(void* stored) {
  {
    const std::lock_guard guard(values().lock);
    if (values().set.erase(stored) == 0) return;
  }
  delete static_cast<MPI_Aint*>(stored);
}
MPI_Aint load(void* stored) {
  const std::lock_guard guard(values().lock);
  return values().set.count(stored) != 0 ? *static_cast<MPI_Aint*>(stored)
                                         : reinterpret_cast<MPI_Aint>(stored);
}

using Procedure = void (*)();
/// The state of a key of Fortran. `Value`: INTEGER for MPI_Keyval_create, else of the size of an address.
/// It is never freed: attributes may outlive MPI_*_free_keyval.
template <class Value>
struct Key {
  void (*copy)(int*, int*, Value*, Value*, Value*, int*, int*);
  void (*remove)(int*, int*, Value*, Value*, int*);
  Value state;
};

template <class K, class Value>
int copy_attribute(typename K::C object, int keyval, void* state, void* value, void* result, int* flag) try {
  auto& key = *static_cast<Key<Value>*>(state);
  int number = out<K>(object), code = MPI_SUCCESS;
  Value old_value = static_cast<Value>(load(value)), new_value = 0;
  key.copy(&number, &keyval, &key.state, &old_value, &new_value, flag, &code);
  if (code == MPI_SUCCESS && *flag != 0) *static_cast<void**>(result) = store(new_value);
  return code;
} catch (const std::bad_alloc&) {
  return MPI_ERR_NO_MEM;
}
template <class K, class Value>
int delete_attribute(typename K::C object, int keyval, void* value, void* state) {
  auto& key = *static_cast<Key<Value>*>(state);
  int number = out<K>(object), code = MPI_SUCCESS;
  auto old_value = static_cast<Value>(load(value));
  key.remove(&number, &keyval, &old_value, &key.state, &code);
  if (code == MPI_SUCCESS) discard(value);
  return code;
}

template <class K, class Value, class Create>
void create_key(Create* create, const Key<Value>& functions, int* keyval, int* ierror) {
  auto* const key = new (std::nothrow) Key<Value>(functions);
  if (key == nullptr) return out_of_memory(ierror);
  const int code = create(copy_attribute<K, Value>, delete_attribute<K, Value>, keyval, key);
  if (code != MPI_SUCCESS) delete key;
  set_error(ierror, code);
}

template <class Set, class Handle>
void set_value(Set* set, Handle object, int keyval, MPI_Aint value, int* ierror) try {
  void* const stored = store(value);
  const int code = set(object, keyval, stored);
  if (code != MPI_SUCCESS) discard(stored);
  set_error(ierror, code);
} catch (const std::bad_alloc&) {
  out_of_memory(ierror);
}

#ifdef WEFT_FORTRAN_KEYVAL_OFFSET
constexpr int kKeyvalOffset =
    WEFT_FORTRAN_KEYVAL_OFFSET;  // keys of predefined attributes: Fortran's minus C's
#else
constexpr int kKeyvalOffset = 0;
#endif
bool is_predefined(int keyval) {
  for (const int key :
       {MPI_TAG_UB, MPI_IO, MPI_HOST, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_LASTUSEDCODE, MPI_UNIVERSE_SIZE,
        MPI_WIN_BASE, MPI_WIN_SIZE, MPI_WIN_DISP_UNIT, MPI_WIN_CREATE_FLAVOR, MPI_WIN_MODEL})
    if (keyval == key) return true;
  return false;
}

template <class Get, class Handle, class Value>
void get_value(Get* get, Handle object, int keyval, Value* value, int* flag, int* ierror) {
  void* stored = nullptr;
  if (is_predefined(keyval - kKeyvalOffset)) keyval -= kKeyvalOffset;
  const int code = get(object, keyval, &stored, flag);
  set_error(ierror, code);
  if (code != MPI_SUCCESS || *flag == 0) return;
  // Predefined attributes are addresses of integers in C, and integers in Fortran.
  if (keyval == MPI_WIN_SIZE)
    *value = static_cast<Value>(*static_cast<MPI_Aint*>(stored));
  else if (is_predefined(keyval) && keyval != MPI_WIN_BASE)
    *value = *static_cast<int*>(stored);
  else
    *value = static_cast<Value>(load(stored));
}

template <class Value>
void duplicate(Value* old_value, Value* new_value, int* flag, int* ierror) {
  *new_value = *old_value;
  *flag = 1;
  *ierror = MPI_SUCCESS;
}

}  // namespace

#define WEFT_FORTRAN_PREDEFINED(object, Value)                                                               \
  WEFT_FORTRAN_F90(void, object##dup_fn,                                                                     \
                   (int*, int*, Value*, Value* old_value, Value* new_value, int* flag, int* code)) {         \
    duplicate(old_value, new_value, flag, code);                                                             \
  }                                                                                                          \
  WEFT_FORTRAN_F90(void, object##null_copy_fn, (int*, int*, Value*, Value*, Value*, int* flag, int* code)) { \
    *flag = 0;                                                                                               \
    *code = MPI_SUCCESS;                                                                                     \
  }                                                                                                          \
  WEFT_FORTRAN_F90(void, object##null_delete_fn, (int*, int*, Value*, Value*, int* code)) {                  \
    *code = MPI_SUCCESS;                                                                                     \
  }                                                                                                          \
  WEFT_FORTRAN_IN_MODULE(void, object##dup_fn, (int*, int*, Value*, Value*, Value*, int*, int*))             \
  WEFT_FORTRAN_IN_MODULE(void, object##null_copy_fn, (int*, int*, Value*, Value*, Value*, int*, int*))       \
  WEFT_FORTRAN_IN_MODULE(void, object##null_delete_fn, (int*, int*, Value*, Value*, int*))
WEFT_FORTRAN_PREDEFINED(, int)
WEFT_FORTRAN_PREDEFINED(comm_, MPI_Aint)
WEFT_FORTRAN_PREDEFINED(type_, MPI_Aint)
WEFT_FORTRAN_PREDEFINED(win_, MPI_Aint)
#undef WEFT_FORTRAN_PREDEFINED

#define WEFT_FORTRAN_ATTRIBUTES(lower, K)                                                                \
  WEFT_FORTRAN(void, lower##_create_keyval,                                                              \
               (decltype(Key<MPI_Aint>::copy) copy, decltype(Key<MPI_Aint>::remove) remove, int* keyval, \
                const MPI_Aint* state, int* ierror)) {                                                   \
    create_key<K, MPI_Aint>(PMPI_##K##_create_keyval, {copy, remove, *state}, keyval, ierror);           \
  }                                                                                                      \
  WEFT_FORTRAN(void, lower##_set_attr,                                                                   \
               (const int* object, const int* keyval, const MPI_Aint* value, int* ierror)) {             \
    set_value(PMPI_##K##_set_attr, in<K>(*object), *keyval, *value, ierror);                             \
  }                                                                                                      \
  WEFT_FORTRAN(void, lower##_get_attr,                                                                   \
               (const int* object, const int* keyval, MPI_Aint* value, int* flag, int* ierror)) {        \
    get_value(PMPI_##K##_get_attr, in<K>(*object), *keyval, value, flag, ierror);                        \
  }
WEFT_FORTRAN_ATTRIBUTES(comm, Comm)
WEFT_FORTRAN_ATTRIBUTES(type, Type)
WEFT_FORTRAN_ATTRIBUTES(win, Win)
#undef WEFT_FORTRAN_ATTRIBUTES

// Deprecated since MPI 2.0: values are INTEGERs.
WEFT_FORTRAN_F90(void, keyval_create,
                 (decltype(Key<int>::copy) copy, decltype(Key<int>::remove) remove, int* keyval,
                  const int* state, int* ierror)) {
  create_key<Comm, int>(PMPI_Comm_create_keyval, {copy, remove, *state}, keyval, ierror);
}
WEFT_FORTRAN_F90(void, attr_put, (const int* comm, const int* keyval, const int* value, int* ierror)) {
  set_value(PMPI_Comm_set_attr, in<Comm>(*comm), *keyval, *value, ierror);
}
WEFT_FORTRAN_F90(void, attr_get, (const int* comm, const int* keyval, int* value, int* flag, int* ierror)) {
  get_value(PMPI_Comm_get_attr, in<Comm>(*comm), *keyval, value, flag, ierror);
}

}  // namespace weft::fortran
