// SPDX-License-Identifier: BSD-3-Clause
// The functions of weft_mpi.buffer, which cli/weft_mpi/arrays.py loads through ctypes.PyDLL. An array of a
// library with DLPack's interface in C is described anew in each call, so nothing of it is remembered;
// arrays.py describes all others.
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "python/dlpack.hpp"
#include "python/view.hpp"

namespace weft::python {
namespace {

constexpr size_t kCodes = 16, kMaxBytes = 17;

/// A type of elements as arrays.py names it.
struct Kind {
  Element element;     ///< of views
  Py_ssize_t units;    ///< elements of views for one of the array
  bool has_datatype;   ///< of MPI, which is passed beside the view
  PyObject* datatype;  ///< null: not asked for until now
};

/// The treatment of arrays of one type.
struct Type {
  enum class Action { returned, described, examined } action;
  PyObject* type;  ///< a reference
  const dlpack::Exchange* exchange = nullptr;
  PyObject* is_neg = nullptr;   ///< methods of PyTorch's lazy operations, which DLPack does not know
  PyObject* is_conj = nullptr;  ///< for complex elements
};

/// The only one in a process, made under Python's lock.
struct Module {
  Ref view_type;
  Ref classify, examine, datatype_of;  ///< functions of arrays.py
  Ref known;                           ///< its dictionary of arrays, by their addresses as objects
  std::vector<Kind> kinds;
  std::array<std::array<int, kMaxBytes>, kCodes>
      numbers{};  ///< of kinds, by code and bytes of DLPack; -1: none
  // Types are added, never changed, so that they are read without a lock.
  static constexpr size_t kMaxTypes = 32;
  std::array<Type, kMaxTypes> types{};
  std::atomic<size_t> type_count = 0;
  std::mutex adding;

  const Type* find(PyObject* type) const;
  /// Returns null with an exception.
  const Type* add(PyObject* type);
  /// Returns a buffer for mpi4py; null after an error.
  PyObject* buffer(size_t kind, void* address, Py_ssize_t count, bool readonly, PyObject* owner);
  /// The same of an array that arrays.py has examined before; null, perhaps without an exception: it is new
  /// or has changed.
  PyObject* remembered(PyObject* array);
  /// The same of an array with DLPack's interface; null, perhaps without an exception: arrays.py examines it.
  PyObject* described(const Type& type, PyObject* array);
};
Module* module = nullptr;

/// Returns a view, with a list around both if there is a datatype; null for null.
PyObject* with_datatype(Ref view, PyObject* datatype) {
  if (!view || datatype == &_Py_NoneStruct) return view.release();
  Ref both(PyList_New(2));
  if (!both || PyList_SetItem(both.get(), 0, view.release()) != 0 ||
      PyList_SetItem(both.get(), 1, Ref::borrowed(datatype).release()) != 0)
    return nullptr;
  return both.release();
}

const Type* Module::find(PyObject* type) const {
  const size_t count = type_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i)
    if (types[i].type == type) return &types[i];
  return nullptr;
}

const Type* Module::add(PyObject* type) {
  static const Type examined{.action = Type::Action::examined, .type = nullptr};
  const Ref found(PyObject_CallFunctionObjArgs(classify.get(), type, nullptr));
  if (!found) return nullptr;
  Type made{.action = Type::Action::examined, .type = type};
  if (found.get() == &_Py_TrueStruct) {
    made.action = Type::Action::returned;
  } else if (found.get() != &_Py_FalseStruct) {
    PyObject *capsule = nullptr, *is_neg = nullptr, *is_conj = nullptr;
    if (PyArg_ParseTuple(found.get(), "OOO", &capsule, &is_neg, &is_conj) == 0) return nullptr;
    const auto* exchange =
        static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(capsule, dlpack::kExchange));
    if (exchange == nullptr) return nullptr;
    if (exchange->major == dlpack::kMajor && exchange->tensor_of != nullptr) {
      made.action = Type::Action::described;
      made.exchange = exchange;
      made.is_neg = Ref::borrowed(is_neg).release();
      made.is_conj = Ref::borrowed(is_conj).release();
    }
  }
  const std::lock_guard lock(adding);
  if (const Type* other = find(type); other != nullptr) return other;
  const size_t count = type_count.load(std::memory_order_relaxed);
  if (count == kMaxTypes) return &examined;  // arrays.py takes arrays of all types
  Py_IncRef(type);
  types[count] = made;
  type_count.store(count + 1, std::memory_order_release);
  return &types[count];
}

PyObject* Module::buffer(size_t number, void* address, Py_ssize_t count, bool readonly, PyObject* owner) {
  Kind& kind = kinds[number];
  Ref view(make_view(view_type.get(), address, count * kind.units, kind.element, readonly, owner));
  if (!kind.has_datatype) return view.release();
  if (kind.datatype == nullptr) {
    const Ref index(PyLong_FromLongLong(static_cast<long long>(number)));
    kind.datatype = PyObject_CallFunctionObjArgs(datatype_of.get(), index.get(), nullptr);
    if (kind.datatype == nullptr) return nullptr;
  }
  return with_datatype(std::move(view), kind.datatype);
}

PyObject* Module::remembered(PyObject* array) {
  const Ref id(PyLong_FromVoidPtr(array));
  if (!id) return nullptr;
  const Ref entry(Ref::borrowed(PyDict_GetItemWithError(known.get(), id.get())));
  if (!entry || PyTuple_Size(entry.get()) < 4) return nullptr;
  const Ref now(PyObject_CallFunctionObjArgs(PyTuple_GetItem(entry.get(), 0), array, nullptr));
  if (!now || PyObject_RichCompareBool(now.get(), PyTuple_GetItem(entry.get(), 1), kEqual) != 1)
    return nullptr;
  return with_datatype(Ref(copy_view(view_type.get(), PyTuple_GetItem(entry.get(), 2), array)),
                       PyTuple_GetItem(entry.get(), 3));
}

PyObject* Module::described(const Type& type, PyObject* array) {
  dlpack::Tensor tensor;
  if (type.exchange->tensor_of(array, &tensor) != 0) return nullptr;
  const size_t bytes = tensor.bits / 8;
  if (tensor.lanes != 1 || tensor.bits % 8 != 0 || tensor.code >= kCodes || bytes >= kMaxBytes)
    return nullptr;
  const int kind = numbers[tensor.code][bytes];
  const int64_t count = dlpack::contiguous_elements(tensor);
  if (kind < 0 || count < 0 || (tensor.data == nullptr && count > 0)) return nullptr;
  const auto is_false = [array](PyObject* method) {
    return Ref(PyObject_CallFunctionObjArgs(method, array, nullptr)).get() == &_Py_FalseStruct;
  };
  constexpr uint8_t kComplex = 5;
  if (!is_false(type.is_neg) || (tensor.code == kComplex && !is_false(type.is_conj))) return nullptr;
  return buffer(static_cast<size_t>(kind), tensor.data + tensor.offset, count, false, array);
}

/// buffer(array), see below.
PyObject* buffer_of(PyObject* /*self*/, PyObject* array) {
  const Ref kind(PyObject_Type(array));
  const Type* type = module->find(kind.get());
  if (type == nullptr) type = module->add(kind.get());
  if (type == nullptr) return nullptr;
  if (type->action == Type::Action::returned) return Ref::borrowed(array).release();
  PyObject* const found =
      type->action == Type::Action::described ? module->described(*type, array) : module->remembered(array);
  if (found != nullptr) return found;
  if (PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return nullptr;  // KeyboardInterrupt
    PyErr_Clear();                                                     // arrays.py finds the same error
  }
  return PyObject_CallFunctionObjArgs(module->examine.get(), array, nullptr);
}

/// make(kind, address, count, readonly, owner): a buffer for mpi4py. Entries of `known` begin with how an
/// array is compared, what is compared, a view, and a datatype or None.
PyObject* make(PyObject* /*self*/, PyObject* arguments) {
  Py_ssize_t kind = 0, count = 0;
  long long address = 0;
  int readonly = 0;
  PyObject* owner = nullptr;
  if (PyArg_ParseTuple(arguments, "nLnpO", &kind, &address, &count, &readonly, &owner) == 0) return nullptr;
  return module->buffer(static_cast<size_t>(kind), reinterpret_cast<void*>(address), count, readonly != 0,
                        owner);
}

constexpr char kHelp[] = R"(buffer($module, x, /)
--

Returns a buffer of an array for mpi4py: comm.Allreduce(buffer(x), buffer(y)). PyTorch, CuPy, JAX (to send), and
objects with __cuda_array_interface__ or DLPack, which must be contiguous; arrays of NumPy are returned as they
are. An array of PyTorch 2.10 and later is described in each call. Others are examined in the first call, and
later ones compare the address and size only. The buffer keeps the array alive.

Work of a GPU on the array must be complete, as for every buffer of mpi4py. Raises TypeError.)";

PyMethodDef functions[] = {
    {"buffer", buffer_of, METH_O, kHelp},
    {"make", make, METH_VARARGS, nullptr},
};

/// Reads the kinds: (format or "", bytes, code of DLPack or -1) each.
bool read_kinds(PyObject* list, Module& made) {
  for (auto& row : made.numbers) row.fill(-1);
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    const char* format = nullptr;
    Py_ssize_t bytes = 0;
    int code = 0;
    if (PyArg_ParseTuple(PyList_GetItem(list, i), "sni", &format, &bytes, &code) == 0) return false;
    const bool in_bytes = *format == '\0';
    made.kinds.push_back({.element = {in_bytes ? "B" : strdup(format), in_bytes ? 1 : bytes},
                          .units = in_bytes ? bytes : 1,
                          .has_datatype = in_bytes,
                          .datatype = nullptr});
    if (code >= 0)
      made.numbers.at(static_cast<size_t>(code)).at(static_cast<size_t>(bytes)) = static_cast<int>(i);
  }
  return true;
}

}  // namespace
}  // namespace weft::python

#define WEFT_EXPORT __attribute__((visibility("default")))

/// Returns the functions buffer and make. kinds: a list; the others: functions of arrays.py. Null after an
/// error.
extern "C" WEFT_EXPORT PyObject* weft_python_buffer(PyObject* kinds, PyObject* known, PyObject* classify,
                                                    PyObject* examine, PyObject* datatype_of) {
  using namespace weft::python;
  if (module == nullptr) {
    auto made = std::make_unique<Module>();
    made->view_type = Ref(make_view_type());
    if (!made->view_type || !read_kinds(kinds, *made)) return nullptr;
    made->known = Ref::borrowed(known);
    made->classify = Ref::borrowed(classify);
    made->examine = Ref::borrowed(examine);
    made->datatype_of = Ref::borrowed(datatype_of);
    module = made.release();
  }
  Ref buffer(PyCFunction_NewEx(&functions[0], nullptr, nullptr));
  Ref make(PyCFunction_NewEx(&functions[1], nullptr, nullptr));
  if (!buffer || !make) return nullptr;
  return Py_BuildValue("NN", buffer.release(), make.release());
}
