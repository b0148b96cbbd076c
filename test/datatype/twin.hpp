// SPDX-License-Identifier: BSD-3-Clause
// Where the buffers given to MPI lie: in the vectors themselves (twin_host.cpp), or in twins of them in GPU
// memory and other kinds, drawn anew for each (twin_device.cpp).
#pragma once
#include <memory>
#include <vector>

namespace weft::test {

class Twin {
 public:
  /// Holds what `bytes` hold now. They must outlive it.
  explicit Twin(std::vector<char>& bytes);
  ~Twin();
  [[nodiscard]] char* data() const;
  /// Brings back what MPI wrote.
  void download() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Before MPI_Init; exits with 77 when there is no GPU to test on.
void open_twins();

}  // namespace weft::test
