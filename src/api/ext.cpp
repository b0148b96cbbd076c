// SPDX-License-Identifier: BSD-3-Clause
// Extensions: the calls of weft.h. They may be made at any time, from any thread.
#include <weft.h>

#include <algorithm>
#include <cstring>

#include "api/errors.hpp"
#include "device/memory.hpp"

#define WEFT_EXPORT __attribute__((visibility("default")))

extern "C" {

WEFT_EXPORT int PMPIX_Query_cuda_support(void) { return weft::device::available() ? 1 : 0; }
__attribute__((weak, alias("PMPIX_Query_cuda_support"))) WEFT_EXPORT int MPIX_Query_cuda_support(void);

WEFT_EXPORT int PMPIX_Last_error_message(char* message, int size, int* length) {
  const std::string& text = weft::api::last_error_message();
  if (length != nullptr) *length = static_cast<int>(text.size());
  if (size < 0 || (message == nullptr && size > 0)) return MPI_ERR_ARG;
  if (size == 0) return MPI_SUCCESS;
  const size_t shown = std::min(text.size(), static_cast<size_t>(size) - 1);
  std::memcpy(message, text.data(), shown);
  message[shown] = '\0';
  return MPI_SUCCESS;
}
__attribute__((weak, alias("PMPIX_Last_error_message"))) WEFT_EXPORT int MPIX_Last_error_message(
    char* message, int size, int* length);

}  // extern "C"
