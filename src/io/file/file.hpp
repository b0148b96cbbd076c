// SPDX-License-Identifier: BSD-3-Clause
// File: an open file of a group of processes (MPI 5.0 chapter 14).
// Threading: under the instance lock, which file accesses release.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/errhandler.hpp"
#include "core/info.hpp"
#include "core/instance.hpp"
#include "core/reference.hpp"
#include "io/backend/target.hpp"
#include "io/collective/exchange.hpp"
#include "io/task/operation.hpp"
#include "io/view/datarep.hpp"
#include "io/view/view.hpp"
#include "p2p/p2p.hpp"
#include "rma/window.hpp"
#include "stream/order/followers.hpp"

namespace weft::io {

/// Access modes: the values of MPI_MODE_* of the ABI.
inline constexpr int kAppend = 1, kCreate = 2, kDeleteOnClose = 4, kExclusive = 8, kReadOnly = 16,
                     kReadWrite = 32, kSequential = 64, kUniqueOpen = 128, kWriteOnly = 256;
/// MPI_DISPLACEMENT_CURRENT.
inline constexpr int64_t kCurrentDisplacement = -1;

enum class Whence { set, current, end };
/// Start of an access: an offset, or the individual or shared file pointer.
enum class At { offset, individual, shared };

/// Arguments of a data access. `collective` with At::shared: in the order of the ranks.
struct Access {
  bool write;
  At at;
  bool collective = false;
  int64_t offset = 0;  ///< in etypes
};

class File final : public core::Counted {
 public:
  /// Collective over `comm`. `info` may be null.
  [[nodiscard]] static Result<File*> open(core::Communicator& comm, const std::string& name, int amode,
                                          const core::Info* info);
  /// Collective. The file has been closed on return, also with an error.
  [[nodiscard]] static Status close(File* file);
  [[nodiscard]] static Status remove(const std::string& name);
  static Slab<File>& slab();
  File(core::Ref<core::Communicator> own_comm, int access_mode);
  ~File() override = default;

  // Collective calls.
  [[nodiscard]] Status resize(int64_t bytes);
  [[nodiscard]] Status preallocate(int64_t bytes);
  [[nodiscard]] Status sync();
  [[nodiscard]] Status set_atomicity(bool atomic);
  [[nodiscard]] Status set_hints(const core::Info* info);
  [[nodiscard]] Status set_view(int64_t disp, datatype::Datatype& etype, datatype::Datatype& filetype,
                                const std::string& datarep, const core::Info* info);
  [[nodiscard]] Status seek_shared(int64_t offset, Whence whence);

  [[nodiscard]] Result<int64_t> size() const { return target->descriptor.size(); }
  [[nodiscard]] Status seek(int64_t offset, Whence whence);
  /// The shared file pointer, in etypes.
  [[nodiscard]] Result<int64_t> shared_position();
  [[nodiscard]] int64_t position() const { return position_; }
  /// Accesses to the file through this handle so far.
  struct Accesses {
    uint64_t reads = 0, read_bytes = 0, writes = 0, written_bytes = 0;
  };
  [[nodiscard]] const Accesses& accesses() const { return accesses_; }
  /// Number of collective accesses that have not completed.
  [[nodiscard]] size_t queued_accesses() const { return queue_.size(); }
  /// Errors for files opened with MPI_MODE_SEQUENTIAL.
  [[nodiscard]] Status check_random_access() const;

  /// Runs an access.
  [[nodiscard]] Result<core::Completion> run(const Access& access, const p2p::Buffer& memory);
  /// Starts an access. The request's outcome is complete when Request::query() has returned.
  [[nodiscard]] Result<core::Request*> start(const Access& access, const p2p::Buffer& memory);
  /// Split collective calls. `buffer` of end(): null: not compared.
  [[nodiscard]] Status begin(const Access& access, const p2p::Buffer& memory);
  [[nodiscard]] Result<core::Completion> end(const Access& access, const void* buffer);

  const core::Ref<core::Communicator> comm;  ///< a duplicate, for collective accesses
  core::Instance& instance;
  const int amode;
  std::unique_ptr<Target> target;
  std::shared_ptr<const View> view;
  core::Ref<core::Errhandler> errhandler;

 private:
  struct Prepared;
  void destroy() override { slab().destroy(this); }
  /// Whether the access mode of the file, which all ranks share, allows an access.
  [[nodiscard]] Status allow(const Access& access);
  /// Whether the arguments of this rank and its view allow an access.
  [[nodiscard]] Status admit(const Access& access, const p2p::Buffer& memory) const;
  /// Sets the offset of an access, checks it, moves the individual file pointer and counts the access.
  [[nodiscard]] Status begin_access(Access& access, int64_t bytes_in_file, int64_t bytes);
  [[nodiscard]] Result<int64_t> end_position() const;
  [[nodiscard]] Result<int64_t> current_displacement();
  /// Agrees on an outcome: returns the own error, else an error of another rank.
  [[nodiscard]] Status agree(Status own);
  /// Runs `change` on rank 0 and returns its outcome on all ranks, if `value` is equal on all ranks.
  template <class Change>
  [[nodiscard]] Status change_once(const char* what, int64_t value, Change&& change);
  [[nodiscard]] Status set_shared(int64_t value);
  void choose_aggregators();

  /// Converts memory of a write, or prepares the conversion of a read.
  [[nodiscard]] Status convert(const Access& access, p2p::Buffer& memory,
                               std::shared_ptr<std::byte[]>& storage,
                               std::function<Result<uint64_t>(uint64_t)>& after);
  [[nodiscard]] Result<Operation*> launch(const Access& access, const p2p::Buffer& memory, bool blocking);
  /// `admitted`: of admit() and convert(); after an error the access takes part in its collective call only.
  [[nodiscard]] Task perform(Operation& operation, Access access, p2p::Buffer memory, Status admitted);
  [[nodiscard]] Task add_to_shared(const View& its_view, int64_t etypes, int64_t& first);
  [[nodiscard]] Task add_to_shared_in_order(Operation& operation, const View& its_view, int64_t etypes,
                                            int64_t& first);

  Accesses accesses_;
  int64_t position_ = 0;      ///< individual file pointer, in etypes
  int64_t local_shared_ = 0;  ///< shared file pointer of a file of one process
  stream::order::Following following_;
  rma::Window* shared_ = nullptr;  ///< with the shared file pointer at rank 0; null: one process
  Operation::Queue queue_;         ///< collective accesses
  Operation* split_ = nullptr;     ///< of the split collective call that has begun
  Access split_access_{};
  const void* split_buffer_ = nullptr;
  AggregatorBuffers buffers_;
  std::vector<int> aggregator_order_;
  int hosts_ = 1;
};

}  // namespace weft::io
