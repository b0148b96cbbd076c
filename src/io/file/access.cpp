// SPDX-License-Identifier: BSD-3-Clause
// File: data accesses (MPI 5.0 section 14.4). Blocking calls on host memory at a known offset access the file
// in the calling thread; all others are tasks.
#include "io/independent/access.hpp"

#include <new>
#include <utility>

#include "base/counters.hpp"
#include "datatype/predefined.hpp"
#include "io/backend/error.hpp"
#include "io/file/file.hpp"
#include "io/independent/staged.hpp"

namespace weft::io {
namespace {

counters::Counter file_reads("io.reads", counters::Unit::events, "Accesses that read a file");
counters::Counter read_bytes("io.read_bytes", counters::Unit::bytes, "Bytes asked of files by reads");
counters::Counter file_writes("io.writes", counters::Unit::events, "Accesses that write a file");
counters::Counter written_bytes("io.written_bytes", counters::Unit::bytes,
                                "Bytes of accesses that write a file");

int64_t bytes_of(const p2p::Buffer& memory) { return memory.count * memory.type->size(); }

}  // namespace

Status File::allow(const Access& access) {
  // Accesses without other processes notice a revocation, too.
  constexpr uint64_t kAccessesPerPoll = 64;
  if ((accesses_.writes + accesses_.reads) % kAccessesPerPoll == 0) instance.poll_once({});
  if (instance.failures.revoked(*comm)) return core::FailureDetector::revoked_error(*comm);
  if (access.write && (amode & kReadOnly) != 0)
    return error(ErrorClass::read_only, target->descriptor.path() + " was opened with MPI_MODE_RDONLY");
  if (!access.write && (amode & kWriteOnly) != 0)
    return error(ErrorClass::access, target->descriptor.path() + " was opened with MPI_MODE_WRONLY");
  return access.at == At::shared ? Status() : check_random_access();
}

Status File::admit(const Access& access, const p2p::Buffer& memory) const {
  if (access.offset < 0)
    return Error(Errc::arg, "offset = " + std::to_string(access.offset) + " is negative");
  const int64_t bytes = bytes_of(memory);
  if (bytes % view->etype_in_memory != 0)
    return error(ErrorClass::io, std::to_string(bytes) + " bytes of data are no multiple of the " +
                                     std::to_string(view->etype_in_memory) +
                                     " bytes of the view's etype: access whole etypes");
  if (bytes != 0 && view->filetype.size() == 0)
    return error(ErrorClass::io, "the view has no data: its filetype is empty");
  return {};
}

Status File::begin_access(Access& access, int64_t bytes_in_file, int64_t bytes) {
  const int64_t etypes = bytes_in_file / view->etype_size;
  if (access.at == At::individual) {
    WEFT_TRY(view->place("the file pointer", position_, etypes));
    access.offset = position_;
    position_ += etypes;
  } else if (access.at == At::offset) {
    WEFT_TRY(view->place("offset", access.offset, etypes));
  }
  ++(access.write ? accesses_.writes : accesses_.reads);
  (access.write ? accesses_.written_bytes : accesses_.read_bytes) += static_cast<uint64_t>(bytes);
  (access.write ? file_writes : file_reads).add();
  (access.write ? written_bytes : read_bytes).add(static_cast<uint64_t>(bytes));
  return {};
}

namespace {

/// Returns true if the data of the access differs between file and memory.
bool is_converted(const Access& access, const Datarep* datarep) {
  return datarep != nullptr && (access.write ? datarep->write != nullptr : datarep->read != nullptr);
}

}  // namespace

/// With a data representation that differs from the one in memory, the access moves converted bytes.
Status File::convert(const Access& access, p2p::Buffer& memory, std::shared_ptr<std::byte[]>& storage,
                     std::function<Result<uint64_t>(uint64_t)>& after) {
  const Datarep* const datarep = view->datarep;
  if (!is_converted(access, datarep)) return {};
  if (on_device(memory))
    return error(ErrorClass::unsupported_datarep,
                 "data in GPU memory cannot be converted to " + datarep->name + ": use the native format");
  const p2p::Buffer user = memory;
  auto& type = const_cast<datatype::Datatype&>(*user.type);
  int64_t size = type.size();  // in the file
  if (datarep->extent) {
    auto form = datarep->file_form(type);
    if (!form) return std::move(form).error();
    size = (*form)->size();
    (*form)->release();
  }
  datatype::Checked math;
  const auto bytes = static_cast<size_t>(math.mul(user.count, size));
  if (!math.overflow()) storage.reset(new (std::nothrow) std::byte[bytes]);
  if (storage == nullptr)
    return Error(Errc::no_mem, "count = " + std::to_string(user.count) + " elements of " +
                                   std::to_string(size) + " bytes in the representation " + datarep->name +
                                   " do not fit the memory: access less at once");
  memory = p2p::host_bytes(storage.get(), bytes);
  after = [datarep, user, &type, size, storage, write = access.write](uint64_t moved) -> Result<uint64_t> {
    if (size == 0) return uint64_t{0};
    const int64_t count = static_cast<int64_t>(moved) / size;
    if (!write) WEFT_TRY(datarep->read(user.address, type, count, storage.get()));
    return static_cast<uint64_t>(count * type.size());
  };
  if (!access.write) return {};
  return instance.unlocked([&] { return datarep->write(user.address, type, user.count, storage.get()); });
}

Task File::perform(Operation& operation, Access access, p2p::Buffer memory, Status admitted) {
  const std::shared_ptr<const View> its_view = view;
  const int64_t bytes = bytes_of(memory), etypes = bytes / its_view->etype_size;
  const bool together = access.collective && comm->size() > 1;
  if (access.at == At::shared) {
    Task add = together ? add_to_shared_in_order(operation, *its_view, etypes, access.offset)
                        : add_to_shared(*its_view, etypes, access.offset);
    Status added = co_await add;
    if (admitted.ok()) admitted = std::move(added);
  }
  int64_t stream = 0;
  if (admitted.ok()) {
    auto placed = its_view->place("offset", access.offset, etypes);
    if (placed)
      stream = *placed;
    else
      admitted = std::move(placed).error();
  }
  if (together) {
    CollectiveAccess arguments{*target, *comm,  buffers_, aggregator_order_,  hosts_, its_view,
                               stream,  memory, bytes,    std::move(admitted)};
    Task collective = access.write ? write_collective(operation, std::move(arguments))
                                   : read_collective(operation, std::move(arguments));
    co_return co_await collective;
  }
  WEFT_CO_TRY(std::move(admitted));
  const IndependentAccess arguments{*target, its_view, stream, memory, bytes, access.write};
  Task independent = access_independent(operation, arguments);
  co_return co_await independent;
}

Result<Operation*> File::launch(const Access& access, const p2p::Buffer& memory, bool blocking) {
  WEFT_TRY(allow(access));
  const bool queued = access.collective && comm->size() > 1;
  p2p::Buffer moved = memory;
  std::shared_ptr<std::byte[]> storage;
  std::function<Result<uint64_t>(uint64_t)> after;
  Access placed = access;
  Status admitted = admit(access, memory);
  if (admitted.ok()) admitted = convert(access, moved, storage, after);
  if (admitted.ok()) admitted = begin_access(placed, bytes_of(moved), bytes_of(memory));
  if (!admitted.ok()) {
    if (!queued) return std::move(admitted).error();
    moved = p2p::host_bytes(nullptr, 0);
    after = nullptr;
  }
  Operation* const operation = Operation::slab().create(
      instance, *this, const_cast<datatype::Datatype&>(*memory.type), queued ? &queue_ : nullptr);
  if (operation == nullptr) return core::no_more_requests();
  if (queued) operation->reserve_tags(*comm);
  operation->keep(storage);
  operation->blocking = blocking;
  if (after)
    operation->epilogue = [operation, after = std::move(after)]() -> Status {
      auto bytes = operation->instance.unlocked([&] { return after(operation->completion.bytes); });
      if (!bytes) return std::move(bytes).error();
      operation->completion.bytes = *bytes;
      return {};
    };
  operation->run(perform(*operation, placed, moved, std::move(admitted)));
  return operation;
}

namespace {

/// Waits for an operation and releases it.
Result<core::Completion> complete(Operation& operation, Pool& pool) {
  operation.wait(pool);
  Status outcome = operation.query();
  if (outcome.ok()) outcome = std::move(operation.outcome);
  const core::Completion completion = operation.completion;
  operation.destroy();
  WEFT_TRY(std::move(outcome));
  return completion;
}

}  // namespace

Result<core::Completion> File::run(const Access& access, const p2p::Buffer& memory) {
  const bool direct = access.at != At::shared && (!access.collective || comm->size() == 1) &&
                      !is_converted(access, view->datarep) && queue_.empty() && !on_device(memory);
  if (!direct) {
    auto operation = launch(access, memory, true);
    if (!operation) return std::move(operation).error();
    return complete(**operation, *target->pool);
  }
  WEFT_TRY(allow(access));
  WEFT_TRY(admit(access, memory));
  const int64_t bytes = bytes_of(memory);
  const std::shared_ptr<const View> its_view = view;
  Access placed = access;
  WEFT_TRY(begin_access(placed, bytes, bytes));
  core::Completion completion;
  completion.bytes = static_cast<uint64_t>(bytes);
  const int64_t stream = placed.offset * its_view->etype_size;
  const core::Ref<File> guard = core::Ref<File>::share(this);
  auto moved = instance.unlocked([&]() -> Result<int64_t> {
    if (!access.write) return read_independent(*target, *its_view, stream, memory, bytes);
    WEFT_TRY(write_independent(*target, *its_view, stream, memory, bytes));
    return bytes;
  });
  if (!moved) return std::move(moved).error();
  completion.bytes = static_cast<uint64_t>(*moved);
  return completion;
}

Result<core::Request*> File::start(const Access& access, const p2p::Buffer& memory) {
  auto operation = launch(access, memory, false);
  if (!operation) return std::move(operation).error();
  return static_cast<core::Request*>(*operation);
}

Status File::begin(const Access& access, const p2p::Buffer& memory) {
  if (split_ != nullptr)
    return error(ErrorClass::io, "another split collective call has begun on the file: end it first");
  auto operation = launch(access, memory, false);
  if (!operation) return std::move(operation).error();
  split_ = *operation;
  split_access_ = access;
  split_buffer_ = memory.address;
  return {};
}

Result<core::Completion> File::end(const Access& access, const void* buffer) {
  if (split_ == nullptr || split_access_.write != access.write || split_access_.at != access.at)
    return error(ErrorClass::io, "no matching split collective call has begun on the file");
  if (buffer != split_buffer_)
    return Error(Errc::buffer, "buf is not the buffer that the split collective call began with");
  return complete(*std::exchange(split_, nullptr), *target->pool);
}

}  // namespace weft::io
