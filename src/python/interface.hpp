// SPDX-License-Identifier: BSD-3-Clause
// Python's stable interface, as far as the modules use it, so that one module serves all versions of Python 3
// from 3.9 on and no build needs Python's headers. Objects are opaque: no field is read.
#pragma once
#include <cstddef>
#include <utility>

#include "python/take_lock.h"

extern "C" {

struct PyObject;
using Py_ssize_t = ptrdiff_t;
using PyCFunction = PyObject* (*)(PyObject*, PyObject*);

struct PyMethodDef {
  const char* name;
  PyCFunction function;
  int flags;
  const char* doc;
};
constexpr int METH_VARARGS = 1, METH_NOARGS = 4, METH_O = 8;

struct PyType_Slot {
  int slot;
  void* function;
};
struct PyType_Spec {
  const char* name;
  int basicsize;
  int itemsize;
  unsigned flags;
  PyType_Slot* slots;
};
constexpr int Py_bf_getbuffer = 1, Py_tp_call = 50, Py_tp_clear = 51, Py_tp_dealloc = 52, Py_tp_methods = 64,
              Py_tp_new = 65, Py_tp_traverse = 71;
constexpr unsigned Py_TPFLAGS_DEFAULT = 1u << 18, Py_TPFLAGS_HAVE_GC = 1u << 14;
using visitproc = int (*)(PyObject*, void*);

/// Part of the stable interface since Python 3.11, and the same in 3.9.
struct Py_buffer {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  const char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};
constexpr int PyBUF_WRITABLE = 1, PyBUF_FORMAT = 4, PyBUF_ND = 8, PyBUF_STRIDES = 0x10 | PyBUF_ND;

extern PyObject _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct;
extern PyObject *PyExc_BufferError, *PyExc_Exception, *PyExc_RuntimeError;
extern PyObject PyBaseObject_Type;

void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
unsigned long PyThread_get_thread_ident(void);
PyThreadState* PyEval_SaveThread(void);
void PyErr_Clear(void);
int PyErr_ExceptionMatches(PyObject* exception);
PyObject* PyErr_Occurred(void);
PyObject* PyErr_Format(PyObject* exception, const char* format, ...);
void PyErr_SetString(PyObject* exception, const char* message);
int PyArg_ParseTuple(PyObject* arguments, const char* format, ...);
PyObject* Py_BuildValue(const char* format, ...);
PyObject* PyObject_Type(PyObject*);
PyObject* PyObject_GetAttr(PyObject*, PyObject* name);
PyObject* PyObject_GetAttrString(PyObject*, const char* name);
PyObject* PyObject_Call(PyObject*, PyObject* arguments, PyObject* keywords);
PyObject* PyObject_CallFunctionObjArgs(PyObject*, ...);
PyObject* PyObject_CallMethodObjArgs(PyObject*, PyObject* name, ...);
int PyObject_RichCompareBool(PyObject*, PyObject*, int operation);
Py_ssize_t PyObject_Size(PyObject*);
void PyObject_Free(void*);
void PyObject_GC_Del(void*);
void PyObject_GC_UnTrack(void*);
PyObject* PyCFunction_NewEx(PyMethodDef*, PyObject* self, PyObject* module);
PyObject* PyType_FromSpec(PyType_Spec*);
PyObject* PyType_GenericAlloc(PyObject* type, Py_ssize_t count);
PyObject* PyUnicode_InternFromString(const char*);
PyObject* PyUnicode_FromString(const char*);
PyObject* PyBool_FromLong(long);
PyObject* PyLong_FromLongLong(long long);
PyObject* PyLong_FromVoidPtr(void*);
long PyLong_AsLong(PyObject*);
long long PyLong_AsLongLong(PyObject*);
double PyFloat_AsDouble(PyObject*);
Py_ssize_t PyTuple_Size(PyObject*);
PyObject* PyTuple_GetItem(PyObject*, Py_ssize_t);             // borrowed
PyObject* PyDict_GetItemWithError(PyObject*, PyObject* key);  // borrowed
PyObject* PyList_New(Py_ssize_t);
Py_ssize_t PyList_Size(PyObject*);
PyObject* PyList_GetItem(PyObject*, Py_ssize_t);  // borrowed
int PyList_SetItem(PyObject*, Py_ssize_t, PyObject* owned);
int PyList_Append(PyObject*, PyObject*);
int PyList_SetSlice(PyObject*, Py_ssize_t begin, Py_ssize_t end, PyObject* items);
PyObject* PyCapsule_New(void*, const char* name, void (*destroy)(PyObject*));
void* PyCapsule_GetPointer(PyObject*, const char* name);

}  // extern "C"

namespace weft::python {

constexpr int kEqual = 2, kGreater = 4;  ///< Py_EQ, Py_GT

/// A reference of its own to an object, or null.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref borrowed(PyObject* object) {
    if (object != nullptr) Py_IncRef(object);
    return Ref(object);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) Py_DecRef(object_);
  }
  [[nodiscard]] PyObject* get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// Python's lock is released while this object lives.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock() { weft_python_take_lock(state_); }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* const state_;
};

inline PyObject* none() {
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

/// The size of Python's own part of each object, which depends on the version; the data of the module, or a
/// pointer to them, follow.
size_t object_header();
template <class Data>
Data*& data_of(PyObject* self) {
  return *reinterpret_cast<Data**>(reinterpret_cast<char*>(self) + object_header());
}
/// Returns a new type, whose objects have data; null after an error.
PyObject* make_type(const char* name, PyType_Slot* slots);

template <class Data>
void dealloc(PyObject* self) {
  const Ref type(PyObject_Type(self));
  delete data_of<Data>(self);
  PyObject_Free(self);
  Py_DecRef(type.get());  // that of the object
}

}  // namespace weft::python
