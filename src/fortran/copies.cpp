// SPDX-License-Identifier: BSD-3-Clause
#include "fortran/copies.hpp"

#include <weft.h>

#include <bit>
#include <cstring>
#include <utility>

namespace weft::fortran {

namespace {

/// A communicator for packing until the request ends: the program may free that of the call before.
MPI_Comm lasting(MPI_Comm comm) {
  int initialized = 0, finalized = 0;
  PMPI_Initialized(&initialized);
  PMPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0 ? MPI_COMM_SELF : comm;
}

/// Calls `copy` for all; returns false if one throws: exceptions cannot pass the boundary of the libraries.
template <class F>
bool for_all(std::vector<Copy>& copies, F&& copy) noexcept try {
  for (Copy& one : copies) copy(one);
  return true;
} catch (...) {
  return false;
}

}  // namespace

Copy::Copy(const Descriptor& section, UsedType type, MPI_Comm comm, bool results)
    : shape_(section),
      type_(std::move(type)),
      section_(static_cast<char*>(section.base)),
      comm_(comm),
      copy_(static_cast<size_t>(shape_.elements()) * shape_.element_bytes),
      before_(results ? copy_.size() : 0) {
  load();
}

void Copy::load() {
  MPI_Count position = 0;
  require(PMPI_Pack_c(section_, 1, type_.handle, copy_.data(), static_cast<MPI_Count>(copy_.size()),
                      &position, comm_));
  if (!before_.empty()) std::memcpy(before_.data(), copy_.data(), copy_.size());
}

/// Calls function(offset in the section, offset in the copy, bytes) for everything that has changed: whole
/// elements if they may be numbers, else bytes.
template <class F>
void Copy::for_each_change(F&& function) const {
  const size_t element = shape_.element_bytes;
  const size_t unit = std::has_single_bit(element) && element <= 16 ? element : 1;
  const auto dimensions = shape_.dimensions();
  ptrdiff_t index[std::size(Descriptor{}.dimensions)] = {}, place = 0;
  for (size_t at = 0; at < copy_.size(); at += element) {
    for (size_t part = 0; part < element; part += unit)
      if (std::memcmp(&copy_[at + part], &before_[at + part], unit) != 0)
        function(place + static_cast<ptrdiff_t>(part), at + part, unit);
    for (size_t i = 0; i < dimensions.size(); ++i) {
      place += dimensions[i].stride;
      if (++index[i] < dimensions[i].extent) break;
      place -= std::exchange(index[i], 0) * dimensions[i].stride;
    }
  }
}

void Copy::store() {
  if (before_.empty() || std::memcmp(copy_.data(), before_.data(), copy_.size()) == 0) return;
  if (PMPIX_Query_cuda_support() != 0) return store_by_type();
  for_each_change(
      [this](ptrdiff_t place, size_t at, size_t bytes) { std::memcpy(section_ + place, &copy_[at], bytes); });
}

/// The section may be in GPU memory.
void Copy::store_by_type() {
  std::vector<MPI_Count> places, lengths;
  std::vector<char> changed;
  for_each_change([&](ptrdiff_t place, size_t at, size_t bytes) {
    places.push_back(place);
    lengths.push_back(static_cast<MPI_Count>(bytes));
    changed.insert(changed.end(), &copy_[at], &copy_[at] + bytes);
  });
  MPI_Datatype type = MPI_DATATYPE_NULL;
  require(PMPI_Type_create_hindexed_c(static_cast<MPI_Count>(places.size()), lengths.data(), places.data(),
                                      MPI_BYTE, &type));
  const UsedType freed(type);
  require(PMPI_Type_commit(&type));
  MPI_Count position = 0;
  require(PMPI_Unpack_c(changed.data(), static_cast<MPI_Count>(changed.size()), &position, section_, 1, type,
                        comm_));
}

void Staged::make_copy(const Descriptor& buffer, MPI_Comm comm, bool results) {
  const MPI_Count bytes = Shape(buffer).elements() * static_cast<MPI_Count>(buffer.element_bytes);
  UsedType type = block_type(buffer, bytes, MPI_BYTE);
  if (!type) return;
  copy_.emplace(buffer, std::move(type), comm, results);
  address = copy_->address();
}

PendingCopies::Owned::Owned()
    : coll::SectionCopies{[](coll::SectionCopies& all) noexcept {
                            return for_all(static_cast<Owned&>(all).copies, [](Copy& copy) { copy.load(); });
                          },
                          [](coll::SectionCopies& all) noexcept {
                            return for_all(static_cast<Owned&>(all).copies, [](Copy& copy) { copy.store(); });
                          },
                          [](coll::SectionCopies& all) noexcept { delete &static_cast<Owned&>(all); }} {}

void* PendingCopies::add(const Descriptor& buffer, bool results) {
  UsedType type = section_type(buffer);
  if (!type) return choice(buffer.base);
  if (!owned_) owned_ = std::make_unique<Owned>();
  owned_->copies.emplace_back(buffer, std::move(type), lasting(comm_), results);
  return owned_->copies.back().address();
}

}  // namespace weft::fortran
