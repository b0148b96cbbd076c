// SPDX-License-Identifier: BSD-3-Clause
// The cuFile library (GPUDirect Storage), opened at run time. Threading: any thread.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

namespace weft::io::cufile {

/// The used part of the interface of cuFile 1 (cufile.h).
struct Code {  // CUfileError_t
  int code, driver_code;
};
struct Description {  // CUfileDescr_t
  int type;
  union {
    int fd;
    void* other;
  };
  const void* operations;
};
struct Properties {  // CUfileDrvProps_t
  struct {
    unsigned major, minor;
    size_t poll_threshold, max_direct;
    unsigned status, control;
  } nvfs;
  unsigned features;
  unsigned rest[16];  // newer versions have more fields
};
inline constexpr int kDescriptorHandle = 1;             // CU_FILE_HANDLE_TYPE_OPAQUE_FD
inline constexpr unsigned kPeerToPeerFeature = 1 << 4;  // CU_FILE_P2P_SUPPORTED

struct Library {
  Code (*open)() = nullptr;
  Code (*properties)(Properties*) = nullptr;
  Code (*add)(void**, Description*) = nullptr;
  void (*remove)(void*) = nullptr;
  ssize_t (*read)(void*, void*, size_t, off_t, off_t) = nullptr;
  ssize_t (*write)(void*, const void*, size_t, off_t, off_t) = nullptr;
  std::string why_not;  ///< empty: usable
};

/// Opens the library on first use. Never unloaded, since cuFile runs threads.
[[nodiscard]] const Library& library();
/// Whether the library has been opened and cannot be used. Opens nothing.
[[nodiscard]] bool known_absent();
/// The setting io.cufile.
[[nodiscard]] bool disabled();
[[nodiscard]] bool required();

}  // namespace weft::io::cufile
