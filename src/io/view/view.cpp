// SPDX-License-Identifier: BSD-3-Clause
#include "io/view/view.hpp"

#include <algorithm>
#include <utility>

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
                                                 const Datarep* datarep, std::string datarep_name) {
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
  view->datarep_name = std::move(datarep_name);
  WEFT_TRY(view->check(writable));
  WEFT_TRY(view->find_stream_end());
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
  datatype::Checked math;
  const int64_t first = math.add(layout.true_lb(), layout.extent());  // of the next filetype
  if (!ordered || layout.true_lb() < 0)
    return bad_displacements(
        "the displacements of filetype are negative or decreasing, which views do not allow");
  interleaved = first < end && !math.overflow();
  if (overlapping && writable)
    return bad_displacements(
        "regions of filetype overlap, which views of files open for writing do not allow");
  return {};
}

/// A stream that is not contiguous ends before 2^62, so that walks over a filetype of up to that size do not
/// overflow.
Status View::find_stream_end() {
  constexpr int64_t kMostBytes = (int64_t{1} << 62) - 1;
  datatype::Checked math;
  const int64_t first = math.add(disp, contiguous || size_ == 0 ? 0 : layout.true_lb());
  const int64_t end = math.add(disp, contiguous || size_ == 0 ? 0 : layout.true_ub());
  if (math.overflow() || end > kFileEnd)
    return bad_type("disp = " + std::to_string(disp) + ": the first filetype ends beyond the largest file, " +
                    std::to_string(kFileEnd) + " bytes: pass a smaller displacement");
  if (contiguous || size_ == 0) {
    stream_end_ = kFileEnd - disp;
    return {};
  }
  if (size_ > kMostBytes)
    return bad_type("filetype has " + std::to_string(size_) +
                    " bytes of data, more than a view with gaps can have: use a smaller filetype");
  int64_t tiles = kMostBytes;
  if (layout.extent() > 0) tiles = (kFileEnd - end) / layout.extent() + 1;
  if (layout.extent() < 0) tiles = -(first / layout.extent()) + 1;  // until they begin before the file
  const int64_t bytes = math.mul(tiles, size_);
  stream_end_ = math.overflow() ? kMostBytes : std::min(bytes, kMostBytes);
  return {};
}

Result<int64_t> View::place(const char* what, int64_t offset, int64_t etypes) const {
  datatype::Checked math;
  const int64_t stream = math.mul(offset, etype_size);
  const int64_t end = math.add(stream, math.mul(etypes, etype_size));
  if (!math.overflow() && stream >= 0 && end <= stream_end_) [[likely]]
    return stream;
  return bad_type(std::string(what) + " = " + std::to_string(offset) + ": the access of " +
                  std::to_string(etypes) + (etypes == 1 ? " etype" : " etypes") +
                  " ends beyond the largest offset of the view, " + std::to_string(stream_end_ / etype_size) +
                  " (a file has at most " + std::to_string(kFileEnd) + " bytes): pass a smaller offset");
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
  if (contiguous) return std::clamp<int64_t>(at - disp, 0, stream_end_);
  if (size_ == 0 || at <= disp + layout.true_lb()) return 0;
  if (layout.extent() <= 0) return stream_before(at, 0, size_);
  const int64_t tile = std::min((at - disp - layout.true_lb()) / layout.extent(), stream_end_ / size_);
  return stream_before(at, tile > 0 ? (tile - 1) * size_ : 0,
                       tile < stream_end_ / size_ ? (tile + 1) * size_ : stream_end_);
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
