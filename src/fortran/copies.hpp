// SPDX-License-Identifier: BSD-3-Clause
// Copies of array sections, for calls whose blocks no single datatype describes. Elements that the call has
// not changed are not copied back: the program may use them meanwhile, or another call may receive into them.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "api/sections.hpp"
#include "fortran/type_cache.hpp"

namespace weft::fortran {

/// A contiguous copy of a section.
class Copy {
 public:
  /// `type` describes all bytes of the section. `results`: the call may write to the buffer.
  Copy(const Descriptor& section, UsedType type, MPI_Comm comm, bool results);
  /// Copies the section. Throws Failure.
  void load();
  /// Copies elements that differ from those of load() to the section, if there are results. Throws Failure.
  void store();
  [[nodiscard]] void* address() { return copy_.data(); }

 private:
  template <class F>
  void for_each_change(F&& function) const;
  void store_by_type();

  Shape shape_;
  UsedType type_;
  char* section_;
  MPI_Comm comm_;
  std::vector<char> copy_;
  std::vector<char> before_;  ///< the content after load(); empty if there are no results
};

/// A buffer of a blocking call.
class Staged {
 public:
  Staged(const Descriptor& buffer, MPI_Comm comm, bool results) : address(choice(buffer.base)) {
    if (!contiguous(buffer)) [[unlikely]]
      make_copy(buffer, comm, results);
  }
  /// Copies the result of the call to the section.
  void finish() {
    if (copy_) [[unlikely]]
      copy_->store();
  }
  void* address;

 private:
  void make_copy(const Descriptor& buffer, MPI_Comm comm, bool results);
  std::optional<Copy> copy_;
};

/// The copies of a nonblocking or persistent collective. They live as long as its request.
class PendingCopies {
 public:
  explicit PendingCopies(MPI_Comm comm) : comm_(comm) {}
  /// The address to pass to the call: of the buffer if it is contiguous, else of a copy.
  void* address(const Descriptor& buffer, bool results) {
    return contiguous(buffer) ? choice(buffer.base) : add(buffer, results);
  }
  /// Gives the copies to the request of the call.
  void keep(MPI_Request request) {
    if (owned_) [[unlikely]]
      weft_set_section_copies(request, owned_.release());
  }

 private:
  struct Owned : coll::SectionCopies {
    Owned();
    std::vector<Copy> copies;
  };
  void* add(const Descriptor& buffer, bool results);
  MPI_Comm comm_;
  std::unique_ptr<Owned> owned_;
};

/// A buffer with several blocks of a nonblocking or persistent call: another datatype, else a copy.
class Items {
 public:
  Items(const Descriptor& buffer, int given_type, PendingCopies& copies, bool results)
      : address(choice(buffer.base)), type(in<Type>(given_type)) {
    if (contiguous(buffer)) [[likely]]
      return;
    own_ = item_type(buffer, type);
    if (own_)
      type = own_.handle;
    else
      address = copies.address(buffer, results);
  }
  void* address;
  MPI_Datatype type;

 private:
  UsedType own_;
};

}  // namespace weft::fortran
