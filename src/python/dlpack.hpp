// SPDX-License-Identifier: BSD-3-Clause
// DLPack's description of an array, and its interface in C, as far as the module uses them
// (https://dmlc.github.io/dlpack/latest/c_api.html).
#pragma once
#include <cstdint>

namespace weft::python::dlpack {

/// DLTensor. Shape and strides belong to the array; strides in elements, null: contiguous.
struct Tensor {
  char* data;
  int32_t device_kind;
  int32_t device;
  int32_t dimensions;
  uint8_t code;  ///< DLDataTypeCode
  uint8_t bits;
  uint16_t lanes;
  const int64_t* shape;
  const int64_t* strides;
  uint64_t offset;  ///< of the first element from `data`, in bytes
};

/// DLPackExchangeAPI, of DLPack 1.2 and later: the content of the capsule `__dlpack_c_exchange_api__` of a
/// type. It lives as long as the process.
struct Exchange {
  uint32_t major;
  uint32_t minor;
  const Exchange* previous;
  void* allocate;
  void* managed_of;
  void* object_of;
  /// Describes an array without ordering any stream; null: not supported. Returns 0, or -1 with an exception.
  int (*tensor_of)(void* object, Tensor* tensor);
  void* current_stream;
};
constexpr char kExchange[] = "dlpack_exchange_api";
constexpr uint32_t kMajor = 1;

/// Returns the number of elements; -1: they are not one after the other, in the order of the indices.
inline int64_t contiguous_elements(const Tensor& tensor) {
  int64_t count = 1;
  for (int i = tensor.dimensions; i-- > 0;) {
    if (tensor.strides != nullptr && tensor.shape[i] != 1 && tensor.strides[i] != count) return -1;
    count *= tensor.shape[i];
  }
  return count;
}

}  // namespace weft::python::dlpack
