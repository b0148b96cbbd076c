// SPDX-License-Identifier: BSD-3-Clause
#include "datatype/twin.hpp"

namespace weft::test {

struct Twin::Impl {
  std::vector<char>& bytes;
};
Twin::Twin(std::vector<char>& bytes) : impl_(new Impl{bytes}) {}
Twin::~Twin() = default;
char* Twin::data() const { return impl_->bytes.data(); }
void Twin::download() const {}
void open_twins() {}

}  // namespace weft::test
