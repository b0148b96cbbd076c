// SPDX-License-Identifier: BSD-3-Clause
#include "python/view.hpp"

namespace weft::python {
namespace {

/// Behind Python's own part of the object, not behind a pointer, since one is made in each call.
struct View {
  void* address;
  Py_ssize_t count, element;  ///< of elements, in bytes
  const char* format;         ///< lives as long as the process
  int readonly;
  PyObject* owner;  ///< a reference; null between creation and the first assignment
};

View& view_of(PyObject* self) {
  return *reinterpret_cast<View*>(reinterpret_cast<char*>(self) + object_header());
}

int get(PyObject* self, Py_buffer* buffer, int flags) {
  View& view = view_of(self);
  buffer->obj = nullptr;
  if ((flags & PyBUF_WRITABLE) != 0 && view.readonly != 0) {
    PyErr_SetString(PyExc_BufferError, "weft_mpi.buffer: the array is read only");
    return -1;
  }
  Py_IncRef(self);
  *buffer = {.buf = view.address,
             .obj = self,
             .len = view.count * view.element,
             .itemsize = view.element,
             .readonly = view.readonly,
             .ndim = 1,
             .format = (flags & PyBUF_FORMAT) != 0 ? view.format : nullptr,
             .shape = (flags & PyBUF_ND) != 0 ? &view.count : nullptr,
             .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &view.element : nullptr,
             .suboffsets = nullptr,
             .internal = nullptr};
  return 0;
}

int traverse(PyObject* self, visitproc visit, void* argument) {
  PyObject* const owner = view_of(self).owner;
  if (owner != nullptr)
    if (const int stop = visit(owner, argument); stop != 0) return stop;
  return visit(Ref(PyObject_Type(self)).get(), argument);
}

int clear(PyObject* self) {
  const Ref owner(std::exchange(view_of(self).owner, nullptr));
  return 0;
}

void dealloc_view(PyObject* self) {
  PyObject_GC_UnTrack(self);
  const Ref type(PyObject_Type(self));
  clear(self);
  PyObject_GC_Del(self);
  Py_DecRef(type.get());  // that of the object
}

}  // namespace

PyObject* make_view_type() {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get)},
                                {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(clear)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(dealloc_view)},
                                {0, nullptr}};
  PyType_Spec spec{"weft_mpi.View", static_cast<int>(object_header() + sizeof(View)), 0,
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  return PyType_FromSpec(&spec);
}

PyObject* make_view(PyObject* type, void* address, Py_ssize_t count, const Element& element, bool readonly,
                    PyObject* owner) {
  PyObject* const self = PyType_GenericAlloc(type, 0);
  if (self == nullptr) return nullptr;
  Py_IncRef(owner);
  view_of(self) = {address, count, element.size, element.format, readonly ? 1 : 0, owner};
  return self;
}

PyObject* copy_view(PyObject* type, PyObject* view, PyObject* owner) {
  const View& from = view_of(view);
  return make_view(type, from.address, from.count, {from.format, from.element}, from.readonly != 0, owner);
}

}  // namespace weft::python
