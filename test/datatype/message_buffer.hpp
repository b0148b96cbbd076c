// SPDX-License-Identifier: BSD-3-Clause
// Message buffers passed to MPI: the vectors themselves (message_buffer_host.cpp), or copies of them in GPU,
// pinned and managed memory (message_buffer_device.cpp).
#pragma once
#include <memory>
#include <vector>

namespace weft::test {

class MessageBuffer {
 public:
  /// Copies `bytes`, which must outlive this object.
  explicit MessageBuffer(std::vector<char>& bytes);
  ~MessageBuffer();
  [[nodiscard]] char* data() const;
  /// Copies the data that MPI wrote back to `bytes`.
  void download() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Call before MPI_Init; exits with status 77 if there is no GPU.
void open_message_buffers();

}  // namespace weft::test
