// SPDX-License-Identifier: BSD-3-Clause
// File: size, storage, consistency, view and hints.
#include "io/file/file.hpp"

#include <limits>

#include "coll/schedule/collective.hpp"
#include "io/backend/error.hpp"
#include "io/backend/file_system.hpp"
#include "io/file/agreement.hpp"

namespace weft::io {

Slab<File>& File::slab() {
  static auto& files = *new Slab<File>(size_t{1} << 20);
  return files;
}

File::File(core::Ref<core::Communicator> own_comm, int access_mode)
    : comm(std::move(own_comm)), instance(comm->instance), amode(access_mode), view(View::bytes()) {
  comm->name = "communicator of a file";  // for error messages
}

Status File::agree(Status own) { return io::agree(*comm, std::move(own), target->descriptor.path()); }

Status File::check_random_access() const {
  if ((amode & kSequential) == 0) return {};
  return error(ErrorClass::unsupported_operation,
               "the file was opened with MPI_MODE_SEQUENTIAL: use the shared file pointer only");
}

template <class Change>
Status File::change_once(const char* what, int64_t value, Change&& change) {
  int64_t values[2] = {value, 0};
  WEFT_TRY(broadcast(*comm, values, sizeof values));
  Status own;
  if (value < 0)
    own = Error(Errc::arg, std::string(what) + " = " + std::to_string(value) + " is negative");
  else if (values[0] != value)
    own = error(ErrorClass::not_same, std::string(what) + " = " + std::to_string(value) + " here and " +
                                          std::to_string(values[0]) + " at rank 0: pass the same value");
  // All ranks agree before the change, so that nothing happens if the values differ.
  WEFT_TRY(agree(std::move(own)));
  return agree(comm->rank() == 0 ? change() : Status());
}

Status File::resize(int64_t bytes) {
  if ((amode & kReadOnly) != 0)
    return error(ErrorClass::read_only, "the file was opened with MPI_MODE_RDONLY");
  return change_once("size", bytes, [&] { return target->descriptor.resize(bytes); });
}

Status File::preallocate(int64_t bytes) {
  if ((amode & kReadOnly) != 0)
    return error(ErrorClass::read_only, "the file was opened with MPI_MODE_RDONLY");
  return change_once("size", bytes,
                     [&] { return bytes == 0 ? Status() : target->descriptor.allocate(bytes); });
}

/// A reader calls it, too, to see what others have written (MPI 5.0 section 14.6.1).
Status File::sync() {
  Status own;
  if (target->dirty.exchange(false)) own = instance.unlocked([&] { return target->descriptor.sync(); });
  // The data of other hosts becomes visible when this host asks for a lock.
  if (own.ok() && hosts_ > 1 && cached_by_hosts(target->descriptor)) {
    constexpr Range kAll{0, std::numeric_limits<int64_t>::max()};
    const bool readable = (amode & kWriteOnly) == 0;
    own = instance.unlocked([&] { return target->descriptor.lock(kAll, !readable); });
    if (own.ok()) target->descriptor.unlock(kAll);
  }
  return agree(std::move(own));
}

Status File::set_atomicity(bool atomic) {
  WEFT_TRY(change_once("flag", atomic ? 1 : 0, [] { return Status(); }));
  Status own;
  if (atomic) {  // whether the file system has locks
    const bool exclusive = (amode & kReadOnly) == 0;
    own = instance.unlocked([&] { return target->descriptor.lock({0, 1}, exclusive); });
    if (own.ok()) target->descriptor.unlock({0, 1});
  }
  WEFT_TRY(agree(std::move(own)));
  target->atomic.store(atomic);
  return {};
}

Status File::set_hints(const core::Info* info) {
  Hints hints = target->hints;
  Status own;
  if (info != nullptr)
    for (size_t i = 0; i < info->size() && own.ok(); ++i)
      own = hints.set(info->entry(i).first, info->entry(i).second);
  WEFT_TRY(broadcast(*comm, &hints, sizeof hints));
  WEFT_TRY(agree(std::move(own)));
  // Without reading, a write cannot preserve the gaps of its block.
  if ((amode & kReadWrite) == 0 && hints.romio_ds_write == Use::enable) hints.romio_ds_write = Use::disable;
  target->hints = hints;
  target->sieves_writes = hints.romio_ds_write == Use::enable;
  return {};
}

/// File offset of the shared file pointer.
Result<int64_t> File::current_displacement() {
  auto pointer = shared_position();
  if (!pointer) return pointer;
  if (view->filetype.size() == 0) return error(ErrorClass::io, "the view has no data: its filetype is empty");
  auto stream = view->place("the shared file pointer", *pointer, 1);
  if (!stream) return stream;
  return view->position(*stream);
}

Status File::set_view(int64_t disp, datatype::Datatype& etype, datatype::Datatype& filetype,
                      const std::string& datarep, const core::Info* info) {
  Status own;
  if (disp == kCurrentDisplacement && (amode & kSequential) != 0) {
    auto current = current_displacement();
    if (current)
      disp = *current;
    else
      own = std::move(current).error();
  } else if (disp < 0) {
    own = Error(Errc::arg, "disp = " + std::to_string(disp) + " is negative");
  }
  auto found = find_datarep(datarep);
  if (own.ok() && !found) own = std::move(found).error();
  // Programs may not change the view while requests are active, and some do.
  core::wait_until(instance, [this] { return queue_.empty(); });
  std::shared_ptr<const View> next;
  if (own.ok()) {
    auto made = View::create(disp, etype, filetype, (amode & kReadOnly) == 0, *found, datarep);
    if (made)
      next = std::move(*made);
    else
      own = std::move(made).error();
  }
  WEFT_TRY(agree(std::move(own)));
  WEFT_TRY(set_hints(info));
  view = std::move(next);
  position_ = 0;
  return set_shared(0);
}

}  // namespace weft::io
