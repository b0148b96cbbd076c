// SPDX-License-Identifier: BSD-3-Clause
// Types for Python.
#include "python/interface.hpp"

namespace weft::python {

size_t object_header() {
  static const size_t size = [] {
    const Ref bytes(PyObject_GetAttrString(&PyBaseObject_Type, "__basicsize__"));
    return static_cast<size_t>(PyLong_AsLong(bytes.get()));
  }();
  return size;
}

PyObject* make_type(const char* name, PyType_Slot* slots) {
  PyType_Spec spec{name, static_cast<int>(object_header() + sizeof(void*)), 0, Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromSpec(&spec);
}

}  // namespace weft::python
