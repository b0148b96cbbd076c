// SPDX-License-Identifier: BSD-3-Clause
// The type View for Python: an object with Python's buffer protocol that describes memory of an array, and
// keeps the array alive. The memory may be that of a GPU: the view never reads it.
#pragma once
#include "python/interface.hpp"

namespace weft::python {

/// A type of elements.
struct Element {
  const char* format;  ///< of the module struct; "B": bytes, whose datatype of MPI is passed apart
  Py_ssize_t size;     ///< of an element of the buffer, in bytes
};

/// Returns the new type; null after an error.
PyObject* make_view_type();
/// Returns a new view of `count` elements; null after an error.
PyObject* make_view(PyObject* type, void* address, Py_ssize_t count, const Element& element, bool readonly,
                    PyObject* owner);
/// Returns a new view of the memory of another one; null after an error.
PyObject* copy_view(PyObject* type, PyObject* view, PyObject* owner);

}  // namespace weft::python
