// SPDX-License-Identifier: BSD-3-Clause
#include "rma/oracle/window.hpp"

#include <cstring>

namespace oracle {
namespace {

bool on_one_host(MPI_Comm comm) {
  MPI_Comm host;
  int size, all;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &size);
  MPI_Comm_size(comm, &all);
  MPI_Comm_free(&host);
  return size == all;
}

MPI_Info make_info(randomized::Draw& draw, const Window::Hints& hints, bool same_unit) {
  MPI_Info info;
  MPI_Info_create(&info);
  if (hints.no_locks) MPI_Info_set(info, "no_locks", "true");
  if (hints.unordered) MPI_Info_set(info, "accumulate_ordering", "none");
  if (hints.same_op) MPI_Info_set(info, "accumulate_ops", hints.no_op ? "same_op_no_op" : "same_op");
  if (same_unit && draw.one_in(2)) MPI_Info_set(info, "same_disp_unit", "true");
  if (draw.one_in(3)) MPI_Info_set(info, "alloc_shared_noncontig", "true");
  return info;
}

}  // namespace

Window::Window(MPI_Comm comm, randomized::Draw& draw, const std::vector<size_t>& bytes, const Hints& hints)
    : comm_(comm), locks_(!hints.no_locks) {
  MPI_Comm_rank(comm, &rank_);
  bytes_ = bytes[static_cast<size_t>(rank_)];
  const bool same_unit = draw.one_in(2);
  const int unit = draw.of({1, 4, 8});
  for (size_t i = 0; i < bytes.size(); ++i)
    units_.push_back(same_unit ? unit : draw.of({1, 2, 3, 4, 8, 16, 24, 48}));
  bases_.assign(bytes.size(), 0);
  flavor_ = draw.of(
      {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_FLAVOR_SHARED});
  if (flavor_ == MPI_WIN_FLAVOR_SHARED && !on_one_host(comm)) flavor_ = MPI_WIN_FLAVOR_ALLOCATE;
  MPI_Info info = make_info(draw, hints, same_unit);
  if (flavor_ == MPI_WIN_FLAVOR_DYNAMIC)
    create_dynamic(info);
  else
    create(info);
  MPI_Info_free(&info);
}

void Window::create(MPI_Info info) {
  const MPI_Aint bytes = static_cast<MPI_Aint>(bytes_);
  const int unit = units_[static_cast<size_t>(rank_)];
  if (flavor_ == MPI_WIN_FLAVOR_CREATE) {
    own_ = allocate_memory(bytes_);
    MPI_Win_create(own_->data(), bytes, unit, info, comm_, &win_);
  } else if (flavor_ == MPI_WIN_FLAVOR_ALLOCATE) {
    MPI_Win_allocate(bytes, unit, info, comm_, &allocated_, &win_);
  } else {
    MPI_Win_allocate_shared(bytes, unit, info, comm_, &allocated_, &win_);
  }
}

void Window::create_dynamic(MPI_Info info) {
  MPI_Aint base = 0;
  own_ = allocate_memory(bytes_);
  MPI_Win_create_dynamic(info, comm_, &win_);
  if (bytes_ != 0) MPI_Win_attach(win_, own_->data(), static_cast<MPI_Aint>(bytes_));
  MPI_Get_address(own_->data(), &base);
  MPI_Allgather(&base, 1, MPI_AINT, bases_.data(), 1, MPI_AINT, comm_);
  units_.assign(units_.size(), 1);
}

Window::~Window() {
  if (flavor_ == MPI_WIN_FLAVOR_DYNAMIC) {
    MPI_Barrier(comm_);
    if (bytes_ != 0) MPI_Win_detach(win_, own_->data());
  }
  MPI_Win_free(&win_);
}

const char* Window::flavor() const {
  if (flavor_ == MPI_WIN_FLAVOR_CREATE) return "create";
  if (flavor_ == MPI_WIN_FLAVOR_ALLOCATE) return "allocate";
  return flavor_ == MPI_WIN_FLAVOR_DYNAMIC ? "dynamic" : "shared";
}

MPI_Aint Window::displacement(int rank, size_t at) const {
  const size_t to = static_cast<size_t>(rank);
  return MPI_Aint_add(bases_[to], static_cast<MPI_Aint>(at) / units_[to]);
}

void Window::write(const std::vector<char>& bytes) {
  if (bytes_ == 0) return;
  if (locks_) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank_, 0, win_);
  if (own_)
    own_->write(0, bytes.data(), bytes_);
  else
    std::memcpy(allocated_, bytes.data(), bytes_);
  if (locks_) MPI_Win_unlock(rank_, win_);
}

std::vector<char> Window::read() {
  std::vector<char> bytes(bytes_);
  if (bytes_ == 0) return bytes;
  if (locks_) MPI_Win_lock(MPI_LOCK_SHARED, rank_, 0, win_);
  if (own_)
    own_->read(0, bytes.data(), bytes_);
  else
    std::memcpy(bytes.data(), allocated_, bytes_);
  if (locks_) MPI_Win_unlock(rank_, win_);
  return bytes;
}

}  // namespace oracle
