// SPDX-License-Identifier: BSD-3-Clause
// libfabric, opened at run time: one already loaded by the program, else the site's or the system's.
// Threading: open() once, under the instance lock; the functions as libfabric says.
#pragma once
#include <string>

#include "base/result.hpp"
#include "transport/ofi/abi.hpp"

namespace weft::transport::ofi {

/// The library's few exported functions; everything else goes through the objects' tables.
struct Library {
  uint32_t (*version)();
  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags,
                 const abi::Info* hints, abi::Info** found);
  void (*freeinfo)(abi::Info*);
  abi::Info* (*dupinfo)(const abi::Info*);
  int (*fabric)(abi::FabricAttr*, abi::Fabric**, void* context);
  const char* (*strerror)(int error);
  std::string path;  ///< the file it was loaded from

  [[nodiscard]] std::string version_text() const;
  /// "what failed (why)"; `code` as libfabric returns it, negative.
  [[nodiscard]] Error error(const std::string& what, ssize_t code) const;
};

/// The library, opened at the first call. Errc::unsupported: it is not there, or too old; says what was
/// tried.
[[nodiscard]] Result<const Library*> library();

}  // namespace weft::transport::ofi
