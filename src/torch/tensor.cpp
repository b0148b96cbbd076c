// SPDX-License-Identifier: BSD-3-Clause
#include "torch/tensor.hpp"

namespace weft::torch {
namespace {

using python::Ref;
namespace dlpack = python::dlpack;

constexpr int kHost = 1, kCuda = 2;  // DLDeviceType
constexpr uint8_t kComplex = 5;      // DLDataTypeCode

/// The names of attributes and methods of torch, made once.
struct Names {
#define WEFT_X(name) PyObject* const name = PyUnicode_InternFromString(#name);
  WEFT_X(data_ptr)
  WEFT_X(dtype)
  WEFT_X(get_device)
  WEFT_X(is_conj)
  WEFT_X(is_contiguous)
  WEFT_X(is_neg)
  WEFT_X(nbytes)
  WEFT_X(numel)
#undef WEFT_X
};
const Names& names() {
  static const Names all;
  return all;
}

PyObject* method(PyObject* object, PyObject* name) {
  return PyObject_CallMethodObjArgs(object, name, nullptr);
}

/// Returns whether a lazy operation of torch, which DLPack does not describe, is pending.
bool is_lazy(PyObject* object, PyObject* name) { return Ref(method(object, name)).get() != &_Py_FalseStruct; }

}  // namespace

bool number(PyObject* owned, long long& value) {
  const Ref object(owned);
  if (!object) return false;
  value = PyLong_AsLongLong(object.get());
  return value != -1 || PyErr_Occurred() == nullptr;
}

long long rows_of(const Tensor& tensor) {
  return tensor.rows >= 0 ? tensor.rows : PyObject_Size(tensor.object);
}

TensorReader::TensorReader(long index, PyObject* exchange, PyObject* described)
    : index_(index), described_(Ref::borrowed(described)) {
  if (exchange == &_Py_NoneStruct) return;
  const auto* found = static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(exchange, dlpack::kExchange));
  PyErr_Clear();
  if (found != nullptr && found->major == dlpack::kMajor && found->tensor_of != nullptr) exchange_ = found;
}

bool TensorReader::is_described(PyObject* object) const {
  if (exchange_ == nullptr) return false;
  const Ref type(PyObject_Type(object));
  const Py_ssize_t count = PyTuple_Size(described_.get());
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyTuple_GetItem(described_.get(), i) == type.get()) return true;
  return false;
}

bool TensorReader::describe(PyObject* object, Tensor& tensor) const {
  dlpack::Tensor found;
  if (exchange_->tensor_of(object, &found) != 0) return false;
  const long device = found.device_kind == kHost ? -1 : found.device;
  if (device != index_ || (found.device_kind != kHost && found.device_kind != kCuda)) return false;
  const int64_t count = dlpack::contiguous_elements(found);
  if (count < 0 || found.bits % 8 != 0 || (found.data == nullptr && count > 0)) return false;
  if (is_lazy(object, names().is_neg) || (found.code == kComplex && is_lazy(object, names().is_conj)))
    return false;
  tensor = {.object = object,
            .dtype = static_cast<uintptr_t>(found.lanes) << 16 | static_cast<uintptr_t>(found.code) << 8 |
                     found.bits,
            .address = static_cast<long long>(reinterpret_cast<intptr_t>(found.data + found.offset)),
            .elements = count,
            .bytes = count * (found.bits / 8) * found.lanes,
            .rows = found.dimensions > 0 ? found.shape[0] : -1};
  return true;
}

bool TensorReader::ask(PyObject* object, Tensor& tensor) const {
  const Names& name = names();
  long long device = 0;
  if (!number(method(object, name.get_device), device) || device != index_) return false;
  if (Ref(method(object, name.is_contiguous)).get() != &_Py_TrueStruct) return false;
  if (is_lazy(object, name.is_conj) || is_lazy(object, name.is_neg)) return false;
  const Ref dtype(PyObject_GetAttr(object, name.dtype));  // lives as long as torch
  tensor = {.object = object,
            .dtype = reinterpret_cast<uintptr_t>(dtype.get()),
            .address = 0,
            .elements = 0,
            .bytes = 0,
            .rows = -1};
  if (!dtype || !number(method(object, name.data_ptr), tensor.address) ||
      !number(method(object, name.numel), tensor.elements) ||
      !number(PyObject_GetAttr(object, name.nbytes), tensor.bytes))
    return false;
  return tensor.address != 0 || tensor.elements == 0;  // else it consists of others
}

bool TensorReader::read(PyObject* object, Tensor& tensor) const {
  return is_described(object) ? describe(object, tensor) : ask(object, tensor);
}

bool TensorReader::read_one(PyObject* list, Tensor& tensor) const {
  return PyList_Size(list) == 1 && read(PyList_GetItem(list, 0), tensor);
}

}  // namespace weft::torch
