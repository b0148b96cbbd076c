// SPDX-License-Identifier: BSD-3-Clause
// Contexts: the context of a buffer, current contexts and relaxed captures for a scope.
#pragma once
#include "base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/memory.hpp"

namespace weft::device::cuda {

/// Whether a context still exists, determined by `probe`, an allocation of Weft in it. A query with the
/// handle of a destroyed context may crash the driver; a query with an address is always allowed.
[[nodiscard]] bool context_exists(Context context, Address probe);

/// Makes a context current for a scope.
class CurrentContext {
 public:
  explicit CurrentContext(Context context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  [[nodiscard]] Code code() const { return code_; }  ///< kSuccess: the context is current

 private:
  Code code_ = kSuccess;
  bool pushed_ = false;
};

/// Relaxed capture mode for a scope: allows calls that a global-mode stream capture of the application
/// forbids.
class RelaxedCapture {
 public:
  RelaxedCapture() { driver().thread_exchange_stream_capture_mode(&mode_); }
  ~RelaxedCapture() { driver().thread_exchange_stream_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  int mode_ = kCaptureModeRelaxed;
};

/// The context of a buffer; for pool and cuMemMap memory the active primary context of the device. Never
/// creates a context. Errc::unsupported if there is none.
[[nodiscard]] Result<Context> context_of(const Memory& memory);
/// The same for memory without a context, by three driver calls.
[[nodiscard]] Result<Context> home_of(const Memory& memory);
/// Sticky error of a stream; kSuccess while the stream is busy or idle without error.
[[nodiscard]] Code stream_fault(Context context, Stream stream);

}  // namespace weft::device::cuda
