// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>

#include "datatype/twin.hpp"
#include "device/cuda_test_support.hpp"

namespace weft::test {
namespace {

int device = 0;
unsigned turn = 0;

Buffer::Kind next_kind() {
  constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::device, Buffer::Kind::pool,
                                     Buffer::Kind::device, Buffer::Kind::host,   Buffer::Kind::device,
                                     Buffer::Kind::managed};
  return kKinds[turn++ % std::size(kKinds)];
}

}  // namespace

struct Twin::Impl {
  std::vector<char>& bytes;
  Buffer buffer;
};
Twin::Twin(std::vector<char>& bytes)
    : impl_(new Impl{bytes, Buffer(next_kind(), std::max<size_t>(bytes.size(), 1), device)}) {
  impl_->buffer.write(bytes);
}
Twin::~Twin() = default;
char* Twin::data() const { return impl_->buffer.data(); }
void Twin::download() const { impl_->bytes = impl_->buffer.read(0, impl_->bytes.size()); }

void open_twins() {
  device = own_device();
  turn = static_cast<unsigned>(device);
}

}  // namespace weft::test
