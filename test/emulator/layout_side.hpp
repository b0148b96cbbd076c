// SPDX-License-Identifier: BSD-3-Clause
// One side of a copy between layouts (device/kernel/pack.hpp), with the addresses of the emulated GPU.
#pragma once
#include "device/kernel/pack.hpp"
#include "world.hpp"

namespace emucuda {

/// Address translation for one side of a copy.
class LayoutSide {
 public:
  LayoutSide(ContextObject& context, const weft::device::kernel::Layout& layout)
      : context_(context), layout_(layout) {}

  /// Translates the segment table, if any.
  bool map() {
    if (layout_.segments == 0) return true;
    layout_.prefix = host(layout_.prefix, (layout_.segments + uint64_t{1}) * sizeof(uint32_t));
    layout_.displacement = host(layout_.displacement, layout_.segments * sizeof(int64_t));
    return layout_.prefix != 0 && layout_.displacement != 0;
  }
  /// Host pointer of a word; null if not accessible for the GPU or not aligned.
  char* word(uint32_t index, uint32_t size, uint32_t begin, uint32_t end) {
    const uint64_t at =
        weft::device::kernel::is_flat(layout_)
            ? weft::device::kernel::locate_flat(layout_, index, size)
            : weft::device::kernel::locate(layout_, index, size,
                                           weft::device::kernel::segments_of(layout_, begin, end, size));
    if (at % size != 0) return nullptr;
    if (at - page_ >= kPage || at - page_ + size > kPage) {  // one lookup per page, for speed
      page_ = at / kPage * kPage;
      mapped_ = reinterpret_cast<char*>(host(page_, kPage));
      if (mapped_ == nullptr) {  // the allocation ends inside the page
        page_ = ~uint64_t{0};
        return reinterpret_cast<char*>(host(at, size));
      }
    }
    return mapped_ + (at - page_);
  }

 private:
  static constexpr uint64_t kPage = 4096;
  uint64_t host(uint64_t address, uint64_t bytes) const {
    return reinterpret_cast<uint64_t>(translate_for(context_, address, bytes));
  }
  ContextObject& context_;
  weft::device::kernel::Layout layout_;
  uint64_t page_ = ~uint64_t{0};
  char* mapped_ = nullptr;
};

}  // namespace emucuda
