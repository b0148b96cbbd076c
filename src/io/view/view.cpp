// SPDX-License-Identifier: BSD-3-Clause
#include "io/view/view.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "datatype/predefined.hpp"
#include "io/backend/error.hpp"
#include "io/view/datarep.hpp"

namespace weft::io {
namespace {

Error bad_type(const std::string& why) { return {Errc::arg, why}; }
// The class that other MPIs return, too.
Error bad_displacements(const char* why) { return error(ErrorClass::io, why); }

}  // namespace

View::View(int64_t displacement, datatype::Datatype& elementary, datatype::Datatype& file_type,
           datatype::Datatype& file_etype, datatype::Datatype& file_layout)
    : disp(displacement),
      etype(elementary),
      filetype(file_type),
      layout(file_layout),
      etype_size(file_etype.size()),
      etype_in_memory(elementary.size()),
      contiguous(file_layout.contiguous() && file_layout.size() != 0),
      size_(file_layout.size()) {
  etype.retain();
  filetype.retain();
  layout.retain();
}

View::~View() {
  etype.release();
  filetype.release();
  layout.release();
}

std::shared_ptr<const View> View::bytes() {
  datatype::Datatype& byte = *datatype::predefined(datatype::kByte);
  return std::make_shared<const View>(0, byte, byte, byte, byte);
}

namespace {

/// A type in a data representation, released at the end.
class FileForm {
 public:
  FileForm() = default;
  FileForm(const FileForm&) = delete;
  FileForm& operator=(const FileForm&) = delete;
  ~FileForm() {
    if (type_ != nullptr) type_->release();
  }
  [[nodiscard]] Status make(datatype::Datatype& type, const Datarep* datarep) {
    if (datarep == nullptr || !datarep->extent) {
      type.retain();
      type_ = &type;
      return {};
    }
    auto made = datarep->file_form(type);
    if (!made) return std::move(made).error();
    type_ = *made;
    return {};
  }
  [[nodiscard]] datatype::Datatype& get() const { return *type_; }

 private:
  datatype::Datatype* type_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<const View>> View::create(int64_t disp, datatype::Datatype& etype,
                                                 datatype::Datatype& filetype, bool writable,
                                                 const Datarep* datarep) {
  if (etype.size() == 0) return bad_type("etype has no data: use a type with at least one byte");
  FileForm file_etype, layout;
  WEFT_TRY(file_etype.make(etype, datarep));
  WEFT_TRY(layout.make(filetype, datarep));
  if (filetype.size() % etype.size() != 0 || layout.get().size() % file_etype.get().size() != 0)
    return bad_type("filetype has " + std::to_string(filetype.size()) +
                    " bytes of data, which is no multiple of the " + std::to_string(etype.size()) +
                    " bytes of etype: build filetype from etype");
  auto view = std::make_shared<View>(disp, etype, filetype, file_etype.get(), layout.get());
  view->datarep = datarep;
  WEFT_TRY(view->check(writable));
  return std::shared_ptr<const View>(std::move(view));
}

/// Displacements of a filetype must be nonnegative and monotonically nondecreasing (MPI 5.0 section 14.1.1).
Status View::check(bool writable) {
  if (contiguous || size_ == 0) return {};
  int64_t last = 0, end = 0, runs = 0;
  bool ordered = true;
  datatype::for_each_run(layout, 1, 0, size_, [&](datatype::Count at, datatype::Count length) {
    ordered = ordered && at >= last;
    overlapping |= at < end;
    if (runs == 0 || at != end) ++runs;
    last = at;
    end = std::max(end, at + length);
  });
  mean_run = size_ / runs;
  const int64_t first = layout.true_lb() + layout.extent();  // of the next filetype
  if (!ordered || layout.true_lb() < 0)
    return bad_displacements(
        "the displacements of filetype are negative or decreasing, which views do not allow");
  interleaved = first < end;
  if (overlapping && writable)
    return bad_displacements(
        "regions of filetype overlap, which views of files open for writing do not allow");
  return {};
}

int64_t View::position(int64_t stream) const {
  if (contiguous) return disp + stream;
  WEFT_ASSERT(size_ != 0);
  int64_t found = 0;
  datatype::for_each_run(layout, 1, stream % size_, 1,
                         [&](datatype::Count at, datatype::Count) { found = at; });
  return disp + stream / size_ * layout.extent() + found;
}

int64_t View::stream_before(int64_t at) const {
  if (contiguous) return std::max<int64_t>(0, at - disp);
  if (size_ == 0 || at <= disp + layout.true_lb()) return 0;
  const int64_t tile = layout.extent() <= 0 ? 0 : (at - disp - layout.true_lb()) / layout.extent();
  return stream_before(at, tile > 0 ? (tile - 1) * size_ : 0, (tile + 1) * size_);
}

int64_t View::stream_before(int64_t at, int64_t low, int64_t high) const {
  if (contiguous) return std::clamp<int64_t>(at - disp, low, high);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (position(middle) < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace weft::io
