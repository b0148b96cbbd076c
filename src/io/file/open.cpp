// SPDX-License-Identifier: BSD-3-Clause
// File: open, close, delete. Rank 0 creates the file before the others open it.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>

#include "coll/construct/communicators.hpp"
#include "coll/schedule/collective.hpp"
#include "io/backend/error.hpp"
#include "io/backend/file_system.hpp"
#include "io/file/agreement.hpp"
#include "io/file/file.hpp"

namespace weft::io {
namespace {

constexpr unsigned kAllModes = kAppend | kCreate | kDeleteOnClose | kExclusive | kReadOnly | kReadWrite |
                               kSequential | kUniqueOpen | kWriteOnly;

constexpr std::pair<int, const char*> kModeNames[] = {
    {kReadOnly, "MPI_MODE_RDONLY"},        {kReadWrite, "MPI_MODE_RDWR"},
    {kWriteOnly, "MPI_MODE_WRONLY"},       {kCreate, "MPI_MODE_CREATE"},
    {kExclusive, "MPI_MODE_EXCL"},         {kDeleteOnClose, "MPI_MODE_DELETE_ON_CLOSE"},
    {kUniqueOpen, "MPI_MODE_UNIQUE_OPEN"}, {kSequential, "MPI_MODE_SEQUENTIAL"},
    {kAppend, "MPI_MODE_APPEND"}};

std::string amode_text(int amode) {
  std::string text;
  for (const auto& [bit, name] : kModeNames)
    if ((amode & bit) != 0) text += (text.empty() ? "" : " | ") + std::string(name);
  const unsigned unknown = static_cast<unsigned>(amode) & ~kAllModes;
  if (unknown != 0 || text.empty()) text += (text.empty() ? "" : " | ") + std::to_string(unknown);
  return text;
}

Status check_amode(int amode) {
  const auto bad = [amode](const char* why) {
    return error(ErrorClass::amode, "amode = " + amode_text(amode) + " " + why);
  };
  const auto mode = static_cast<unsigned>(amode);
  if ((mode & ~kAllModes) != 0) return bad("has unknown bits");
  if (std::popcount(mode & (kReadOnly | kReadWrite | kWriteOnly)) != 1)
    return bad("must have exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY");
  if ((mode & kReadOnly) != 0 && (mode & (kCreate | kExclusive)) != 0)
    return bad("has MPI_MODE_CREATE or MPI_MODE_EXCL with MPI_MODE_RDONLY");
  if ((mode & kReadWrite) != 0 && (mode & kSequential) != 0)
    return bad("has MPI_MODE_SEQUENTIAL with MPI_MODE_RDWR");
  return {};
}

int flags_of(int amode) {
  if ((amode & kReadOnly) != 0) return O_RDONLY;
  return (amode & kReadWrite) != 0 ? O_RDWR : O_WRONLY;
}

int creation_flags_of(int amode) {
  return ((amode & kCreate) != 0 ? O_CREAT : 0) | ((amode & kExclusive) != 0 ? O_EXCL : 0);
}

/// Removes the name of a file system in front of a path, which ROMIO accepts.
std::string path_of(const std::string& name) {
  static constexpr std::string_view kPrefixes[] = {"ufs:", "nfs:", "xfs:", "lustre:", "gpfs:", "panfs:"};
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

/// Opens the file. Mappings and data sieving need read access, also for writes.
int open_as(const std::string& path, int amode, int more_flags, Descriptor& file) {
  const bool only_write = (amode & kWriteOnly) != 0;
  int number =
      file.open(path, (only_write && (amode & kSequential) == 0 ? O_RDWR : flags_of(amode)) | more_flags);
  if (number == EACCES && only_write) number = file.open(path, O_WRONLY | more_flags);
  return number;
}

/// Facts of the file that rank 0 opens first.
struct First {
  int64_t opened, mappable, in_memory;
  Stripes stripes;
};

/// Gathers the amodes of all ranks; an error on all ranks if they differ.
Status compare_amodes(core::Communicator& comm, int amode) {
  std::vector<int> all(static_cast<size_t>(comm.size()), amode);
  if (comm.size() > 1)
    WEFT_TRY(
        coll::run(coll::record_call(coll::Collective::allgather, comm, &amode, all.data(), sizeof amode)));
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      return error(ErrorClass::not_same, "amode = " + amode_text(all[0]) + " at rank 0 and " +
                                             amode_text(all[rank]) + " at rank " + std::to_string(rank) +
                                             ": pass the same value on all ranks");
  return check_amode(amode);
}

/// Opens the file on rank 0, which creates it, with the stripes that the hints ask for.
Status open_first(const std::string& path, int amode, const core::Info* info, Target& target, First& first) {
  Hints hints;
  hints.striping_unit = 0;
  if (info != nullptr)
    for (size_t i = 0; i < info->size(); ++i)
      if (info->entry(i).first.starts_with("striping_"))
        WEFT_TRY(hints.set(info->entry(i).first, info->entry(i).second));
  const Stripes wanted{hints.striping_factor, hints.striping_unit};
  const bool creates = (amode & kCreate) != 0 && (wanted.count != 0 || wanted.bytes != 0);
  const int later = creates ? stripe_later(path) : 0;
  if (const int number = open_as(path, amode, creation_flags_of(amode) | later, target.descriptor);
      number != 0)
    return system_error("open", path, number);
  if (target.descriptor.is_folder()) return system_error("open", path, EISDIR);
  if (later != 0) set_stripes(target.descriptor, wanted);
  first.opened = 1;
  first.mappable = target.descriptor.mappable() ? 1 : 0;
  first.in_memory = in_memory(target.descriptor) ? 1 : 0;
  first.stripes = stripes_of(target.descriptor);
  return {};
}

/// Opens the file on all ranks, or on none.
Status open_everywhere(core::Communicator& comm, const std::string& path, int amode, const core::Info* info,
                       Target& target, Stripes& stripes) {
  // Programs delete a file on all ranks and create it again: the creation waits for the last deletion.
  WEFT_TRY(compare_amodes(comm, amode));
  First first{0, 0, 0, {}};
  Status own;
  if (comm.rank() == 0) own = open_first(path, amode, info, target, first);
  WEFT_TRY(broadcast(comm, &first, sizeof first));
  target.mappable = first.mappable != 0;
  target.in_memory = first.in_memory != 0;
  target.contended = comm.size() > 1;
  stripes = first.stripes;
  if (comm.rank() != 0 && first.opened != 0)
    if (const int number = open_as(path, amode, 0, target.descriptor); number != 0)
      own = system_error("open", path, number);
  return agree(comm, std::move(own), path);
}

/// The ranks in the order in which they become aggregators: one of each host in turn.
std::vector<int> spread_over_hosts(const core::Communicator& comm, int& hosts) {
  std::map<int, int> members;  // of each host so far
  std::vector<std::pair<int, int>> turns;
  for (int rank = 0; rank < comm.size(); ++rank)
    turns.emplace_back(members[comm.instance.host_of(comm.process(rank))]++, rank);
  std::sort(turns.begin(), turns.end());
  std::vector<int> order;
  for (const auto& [turn, rank] : turns) order.push_back(rank);
  hosts = static_cast<int>(members.size());
  return order;
}

}  // namespace

void File::choose_aggregators() { aggregator_order_ = spread_over_hosts(*comm, hosts_); }

Result<File*> File::open(core::Communicator& comm, const std::string& name, int amode,
                         const core::Info* info) {
  if (comm.inter()) return Error(Errc::comm, "comm is an intercommunicator: files need an intracommunicator");
  auto target = std::make_unique<Target>();
  const std::string path = path_of(name);
  Stripes stripes;
  WEFT_TRY(open_everywhere(comm, path, amode, info, *target, stripes));
  rma::Window* window = nullptr;
  core::Ref<core::Communicator> own_comm;
  if (comm.size() > 1) {
    rma::Options options{rma::Flavor::allocate};
    options.size = comm.rank() == 0 ? sizeof(int64_t) : 0;
    auto made = rma::Window::create(comm, options);
    if (!made) return std::move(made).error();
    window = *made;
    own_comm = window->comm;
  } else {
    auto duplicate = coll::duplicate(comm);
    if (!duplicate) return std::move(duplicate).error();
    own_comm = core::Ref<core::Communicator>(*duplicate);
    own_comm->has_handle = false;
  }
  File* const file = slab().create(std::move(own_comm), amode);
  if (file == nullptr) return Error(Errc::no_mem, "too many open files: close some");
  file->target = std::move(target);
  file->shared_ = window;
  file->choose_aggregators();
  auto following = stream::order::follow_order(*file->comm, comm);
  if (following) file->following_ = std::move(*following);
  Status prepared = following ? Status() : std::move(following).error();
  if (prepared.ok() && window != nullptr) prepared = window->lock_all(1024);  // MPI_MODE_NOCHECK
  if (prepared.ok()) prepared = file->set_hints(info);
  if (stripes.count > 0) {  // what the file has, whatever the hints ask for
    file->target->hints.striping_factor = stripes.count;
    file->target->hints.striping_unit = stripes.bytes;
  }
  if (prepared.ok() && (amode & kAppend) != 0) {
    prepared = file->agree(file->seek(0, Whence::end));
    if (prepared.ok()) prepared = file->set_shared(file->position_);
  }
  if (prepared.ok()) return file;
  file->open_handle();
  (void)close(file);
  return std::move(prepared).error();
}

Status File::close(File* file) {
  const core::Ref<File> guard = core::Ref<File>::share(file);
  Status outcome;
  if (file->split_ != nullptr)
    outcome = error(ErrorClass::io, "a split collective call has begun and not ended: end it first");
  core::wait_until(file->instance, [file] {
    bool idle = true;
    Operation::slab().for_each([&](const Operation& operation) {
      idle = idle && (operation.file.get() != file || operation.complete());
    });
    return idle;
  });
  file->following_.reset();
  const std::string path = file->target->descriptor.path();
  file->target->mapping_cache.clear();
  if (Status closed = file->target->descriptor.close(); outcome.ok()) outcome = std::move(closed);
  outcome = file->agree(std::move(outcome));
  if ((file->amode & kDeleteOnClose) != 0) {  // when all ranks have closed the file
    if (file->comm->rank() == 0 && ::unlink(path.c_str()) != 0 && outcome.ok())
      outcome = system_error("delete", path, errno);
    outcome = file->agree(std::move(outcome));
  }
  if (file->shared_ != nullptr) {
    Status unlocked = file->shared_->unlock_all();
    file->shared_->open_handle();
    Status freed = rma::Window::free(file->shared_);
    file->shared_ = nullptr;
    if (outcome.ok()) outcome = std::move(unlocked);
    if (outcome.ok()) outcome = std::move(freed);
  }
  file->close_handle();
  return outcome;
}

Status File::remove(const std::string& name) {
  const std::string path = path_of(name);
  return ::unlink(path.c_str()) == 0 ? Status() : system_error("delete", path, errno);
}

}  // namespace weft::io
