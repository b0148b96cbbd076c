// SPDX-License-Identifier: BSD-3-Clause
// SectionCopies: contiguous copies that a nonblocking or persistent collective uses in place of array
// sections of Fortran (fortran/copies.hpp). Plain functions, since another shared library defines them.
// Threading: called without the instance lock, by the thread that starts or completes the request.
#pragma once
#include "core/request.hpp"

namespace weft::coll {

struct SectionCopies {
  bool (*load)(SectionCopies&) noexcept;     ///< copies the sections into the copies, before MPI_Start
  bool (*store)(SectionCopies&) noexcept;    ///< copies results into the sections, once after each completion
  void (*release)(SectionCopies&) noexcept;  ///< called with the end of the request
};

/// Gives `copies` to a request of start() or make_persistent() (collective.hpp) that the program does not
/// have yet. Under the instance lock; dispatch/ defines it.
void set_section_copies(core::Request& request, SectionCopies& copies);

}  // namespace weft::coll
