// SPDX-License-Identifier: BSD-3-Clause
#include "api/sections.hpp"

#include "api/extension.hpp"
#include "api/handles.hpp"
#include "base/assert.hpp"
#include "coll/schedule/collective.hpp"
#include "p2p/partitioned.hpp"

using namespace weft;

void weft_set_section_copies(MPI_Request request, coll::SectionCopies* copies) {
  const api::EntryPoint entry("weft_set_section_copies");
  WEFT_ASSERT(coll::check_request(request) == HandleState::live);
  coll::set_section_copies(*api::to_request(request), *copies);
}

int weft_set_partitioned_section(MPI_Request request, MPI_Count count, MPI_Datatype type) {
  const api::EntryPoint entry("weft_set_partitioned_section");
  WEFT_ASSERT(p2p::Partitioned::slab().check(request) == HandleState::live);
  try {
    auto& partitioned = static_cast<p2p::Partitioned&>(*api::to_request(request));
    return partitioned.set_items(count, *api::to_datatype(type)) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  }
}
