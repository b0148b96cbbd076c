// SPDX-License-Identifier: BSD-3-Clause
// libfabric, opened at run time: a copy already loaded by the program, else the configured or system library.
// Threading: open() once, under the instance lock; functions as libfabric documents.
#pragma once
#include <string>

#include "base/result.hpp"
#include "transport/ofi/abi.hpp"

namespace weft::transport::ofi {

/// Exported functions of the library; all other calls use the operation tables of objects.
struct Library {
  uint32_t (*version)();
  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags,
                 const abi::Info* hints, abi::Info** found);
  void (*freeinfo)(abi::Info*);
  abi::Info* (*dupinfo)(const abi::Info*);
  int (*fabric)(abi::FabricAttr*, abi::Fabric**, void* context);
  const char* (*strerror)(int error);
  std::string path;  ///< of the loaded file

  [[nodiscard]] std::string version_text() const;
  /// Error "`what` (reason)"; `code` as returned by libfabric, negative.
  [[nodiscard]] Error error(const std::string& what, ssize_t code) const;
};

/// Returns the library, opened at the first call. Errc::unsupported: missing or too old.
[[nodiscard]] Result<const Library*> library();

}  // namespace weft::transport::ofi
