// SPDX-License-Identifier: BSD-3-Clause
// GpuFile: moves bytes between GPU memory and a file by cuFile (GPUDirect Storage), without host memory.
// libcufile.so.0 is opened at run time. A file system is used after a checked read has succeeded on it.
// Threading: any thread, without the instance lock.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

#include "base/result.hpp"
#include "device/memory.hpp"
#include "io/backend/descriptor.hpp"

namespace weft::io {

class GpuFile {
 public:
  /// Multiple of file offsets, lengths and addresses that transfers need, in bytes.
  static constexpr int64_t kAlignment = 4096;

  GpuFile() = default;
  GpuFile(const GpuFile&) = delete;
  GpuFile& operator=(const GpuFile&) = delete;
  ~GpuFile();

  /// Smallest transfer that is worth cuFile, in bytes; 0: cuFile is not used.
  [[nodiscard]] static int64_t least_bytes();
  /// Whether a checked read has succeeded on the file system of `file`.
  [[nodiscard]] static bool proven(const Descriptor& file);
  /// Opens the library, registers the file and, once for each file system, compares `kAlignment` bytes at
  /// `offset`, which the file must have, read by cuFile and by the CPU. Errc::unsupported with the reason.
  [[nodiscard]] Status prepare(const Descriptor& file, const device::Memory& near, int64_t offset);
  /// Transfers aligned bytes; fewer at the end of the file. Errc::unsupported: cuFile refuses the transfer.
  /// Precondition: prepare() has succeeded.
  [[nodiscard]] Result<int64_t> read(const Descriptor& file, void* to, const device::Memory& memory,
                                     int64_t bytes, int64_t offset) const;
  [[nodiscard]] Result<int64_t> write(const Descriptor& file, const void* from, const device::Memory& memory,
                                      int64_t bytes, int64_t offset) const;
  /// Counts and logs that cuFile does not move the bytes of an access, if the setting asks for it.
  static void refuse(const std::string& why);

 private:
  [[nodiscard]] Status open(const Descriptor& file);
  [[nodiscard]] Status check_block(const Descriptor& file, const device::Memory& near, int64_t offset) const;
  std::mutex lock_;  ///< of prepare()
  int fd_ = -1;      ///< with O_DIRECT
  void* handle_ = nullptr;
};

}  // namespace weft::io
