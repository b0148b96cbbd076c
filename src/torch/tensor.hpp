// SPDX-License-Identifier: BSD-3-Clause
// A tensor of torch as the module sees it, and how it is read: by DLPack's functions in C, where torch has
// them, else by its methods for Python.
#pragma once
#include <cstdint>

#include "python/dlpack.hpp"
#include "python/interface.hpp"

namespace weft::torch {

/// A tensor whose elements are one after the other in memory of one GPU.
struct Tensor {
  PyObject* object;
  uintptr_t
      dtype;  ///< equal for equal types that were read in one way; an object of torch, or a code of DLPack
  long long address, elements, bytes;
  long long rows;  ///< the first dimension; -1: unknown
};

/// Returns the first dimension of a tensor; -1 with an exception: it has none.
long long rows_of(const Tensor& tensor);

class TensorReader {
 public:
  /// index: of the GPU; -1: memory of the host, for tests. exchange: a capsule of DLPack's functions, or
  /// None; described: a tuple of the types whose objects they describe. Tensors of all other types, which may
  /// have no memory of their own, are read by their methods. Throws nothing; an unknown capsule counts as
  /// None.
  TensorReader(long index, PyObject* exchange, PyObject* described);
  /// Returns false, perhaps with an exception, for a tensor that is not contiguous there, or that is lazy.
  bool read(PyObject* object, Tensor& tensor) const;
  /// Reads the only tensor of a list.
  bool read_one(PyObject* list, Tensor& tensor) const;

 private:
  [[nodiscard]] bool is_described(PyObject* object) const;
  bool describe(PyObject* object, Tensor& tensor) const;
  bool ask(PyObject* object, Tensor& tensor) const;

  long index_;
  const python::dlpack::Exchange* exchange_ = nullptr;
  python::Ref described_;
};

/// Returns an integer that a new reference refers to; false after an error.
bool number(PyObject* owned, long long& value);

}  // namespace weft::torch
