// SPDX-License-Identifier: BSD-3-Clause
#include "coll/place.hpp"

namespace expect {

void open_places() {}
void* place(reference::Field& field) { return field.data(); }
Places::~Places() = default;
void Places::upload() const {}
void Places::download() const {}

}  // namespace expect
