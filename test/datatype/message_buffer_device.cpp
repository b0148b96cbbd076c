// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstdlib>

#include "datatype/message_buffer.hpp"
#include "device/cuda_test_support.hpp"

namespace weft::test {
namespace {

int device = 0;
unsigned buffer_count = 0;

Buffer::Kind next_kind() {
  constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::device, Buffer::Kind::pool,
                                     Buffer::Kind::device, Buffer::Kind::host,   Buffer::Kind::device,
                                     Buffer::Kind::managed};
  return kKinds[buffer_count++ % std::size(kKinds)];
}

}  // namespace

struct MessageBuffer::Impl {
  std::vector<char>& bytes;
  Buffer buffer;
};
MessageBuffer::MessageBuffer(std::vector<char>& bytes)
    : impl_(new Impl{bytes, Buffer(next_kind(), std::max<size_t>(bytes.size(), 1), device)}) {
  impl_->buffer.write(bytes);
}
MessageBuffer::~MessageBuffer() = default;
char* MessageBuffer::data() const { return impl_->buffer.data(); }
void MessageBuffer::download() const { impl_->bytes = impl_->buffer.read(0, impl_->bytes.size()); }

void open_message_buffers() {
  device = own_device();
  buffer_count = static_cast<unsigned>(device);  // ranks start with different kinds
}

}  // namespace weft::test
