// SPDX-License-Identifier: BSD-3-Clause
// Stream: an MPIX_Stream handle names this object, which holds a GPU stream of the application or none.
// Threading: under the instance lock.
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
  /// Created from hints: type = cudaStream_t with value = its bytes in hexadecimal digits; without type: no
  /// GPU stream. weft_stream_order, weft_stream_order_pinned: "true" or "false"; weft_stream_kernels: also
  /// "prefer".
  static Result<Stream*> create(const core::Info* info);
  static Slab<Stream>& slab();

  std::optional<device::UserStream> gpu;
  bool in_order = false;         ///< ordinary calls on communicators of the stream are enqueued
  bool pinned_in_order = false;  ///< pinned host memory is accessed in stream order, too
  /// Kernels execute operations; of ordinary calls, if all ranks promise that kernels can (docs/streams.md).
  bool prefers_kernels = false;
  bool kernels_only = false;  ///< the same, and it is an error if they cannot

 private:
  void destroy() override;
};

}  // namespace weft::stream
