// SPDX-License-Identifier: BSD-3-Clause
#include "api/section_copies.hpp"

#include "api/entry_point.hpp"
#include "api/handles.hpp"
#include "base/assert.hpp"
#include "coll/schedule/collective.hpp"

void weft_set_section_copies(MPI_Request request, weft::coll::SectionCopies* copies) {
  using namespace weft;
  const api::EntryPoint entry("weft_set_section_copies");
  WEFT_ASSERT(coll::check_request(request) == HandleState::live);
  coll::set_section_copies(*api::to_request(request), *copies);
}
