// SPDX-License-Identifier: BSD-3-Clause
// Stream: what an MPIX_Stream handle names, a stream of the application's or none. Threading: under the
// instance lock.
#pragma once
#include <optional>

#include "base/result.hpp"
#include "base/slab.hpp"
#include "core/info.hpp"
#include "core/reference.hpp"
#include "device/stream.hpp"

namespace weft::stream {

class Stream final : public core::Counted {
 public:
  /// As the hints say: type = cudaStream_t with value = its bytes in hexadecimal digits; no type: no GPU
  /// stream.
  static Result<Stream*> create(const core::Info* info);
  static Slab<Stream>& slab();

  std::optional<device::UserStream> gpu;

 private:
  void destroy() override;
};

}  // namespace weft::stream
