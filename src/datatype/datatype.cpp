// SPDX-License-Identifier: BSD-3-Clause
// Datatype objects: lifetime, handles, canonical strided form, counts of basic elements.
#include "datatype/datatype.hpp"

#include <new>
#include <utility>

#include "base/slab.hpp"
#include "datatype/predefined.hpp"
#include "datatype/signature.hpp"
#include "datatype/store.hpp"

namespace weft::datatype {

// Never destroyed: a handle used after finalize is still recognised as stale.
Slab<Datatype>& slab() {
  static auto* types = new Slab<Datatype>(size_t{1} << 22);
  return *types;
}

namespace {

Bounds bounds_of(Basic basic) {
  const BasicTraits& known = traits_of(basic);
  Bounds bounds;
  bounds.size = known.size;
  bounds.true_ub = known.index_offset == 0 ? known.size : known.index_offset + known.size - known.value_size;
  bounds.ub = known.extent;
  bounds.alignment = known.alignment;
  bounds.elements = known.group == Group::pair ? 2 : 1;
  bounds.basic = basic;
  return bounds;
}

NodePtr layout_of(Basic basic) {
  const BasicTraits& known = traits_of(basic);
  return make_runs({{0, known.value_size}, {known.index_offset, known.size - known.value_size}});
}

bool is_contiguous(const Bounds& bounds, const Node* layout) {
  if (layout == nullptr) return true;  // no bytes, whatever the extent
  return layout->kind == Node::Kind::run && layout->first == 0 && bounds.lb == 0 && bounds.ub == bounds.size;
}

}  // namespace

Datatype::Datatype(const Bounds& bounds, NodePtr layout, Contents contents)
    : bounds_(bounds),
      layout_(std::move(layout)),
      contents_(std::move(contents)),
      contiguous_(is_contiguous(bounds_, layout_.get())) {
  for (Datatype* type : contents_.types) type->retain();
}

Datatype::Datatype(uintptr_t handle, const char* name, Basic basic)
    : bounds_(bounds_of(basic)),
      layout_(layout_of(basic)),
      name_(name),
      handle_(handle),
      predefined_(true),
      committed_(true),
      contiguous_(is_contiguous(bounds_, layout_.get())) {}

Datatype::Datatype(Basic basic, Contents contents)
    : bounds_(bounds_of(basic)),
      layout_(layout_of(basic)),
      contents_(std::move(contents)),
      predefined_(true),
      committed_(true),
      contiguous_(is_contiguous(bounds_, layout_.get())) {}

Datatype::~Datatype() {
  for (Datatype* type : contents_.types) type->release();
}

void Datatype::release() {
  if (!predefined() && --references_ == 0) slab().destroy(this);
}

void Datatype::open_handle() {
  if (predefined()) return;
  ++handles_;
  ++references_;
}

void Datatype::close_handle() {
  if (predefined()) return;
  --handles_;
  release();
}

std::optional<Basic> Datatype::basic() const {
  if (bounds_.size == 0 || !bounds_.uniform) return std::nullopt;
  return bounds_.basic;
}

std::optional<Strided> Datatype::strided(Count count) const {
  const Node* node = layout_.get();
  Strided form;
  if (node == nullptr || count <= 0) return form;
  Count counts[Strided::kMaxDimensions + 1], strides[Strided::kMaxDimensions + 1];  // outermost first
  int levels = 0;
  const bool joined = node->kind == Node::Kind::repeat && extent() == node->stride * node->count;
  if (count > 1 && !joined && !(node->kind == Node::Kind::run && extent() == node->length)) {
    counts[levels] = count;
    strides[levels++] = extent();
    count = 1;
  }
  for (; node->kind == Node::Kind::repeat; node = node->child.get(), count = 1) {
    if (levels == Strided::kMaxDimensions) return std::nullopt;
    form.displacement += node->first;
    counts[levels] = node->count * count;
    strides[levels++] = node->stride;
  }
  if (node->kind != Node::Kind::run) return std::nullopt;
  form.displacement += node->first;
  form.length = node->length * count;
  form.dimensions = levels;
  for (int i = 0; i < levels; ++i) {
    form.count[i] = counts[levels - 1 - i];
    form.stride[i] = strides[levels - 1 - i];
  }
  return form;
}

Datatype* find(uintptr_t handle) {
  if (Datatype* type = predefined(handle)) return type;
  auto* type = reinterpret_cast<Datatype*>(handle);
  return slab().check(type) == HandleState::live && type->has_handle() ? type : nullptr;
}

size_t live() { return slab().live(); }

Count whole_count(const Datatype& type, Count bytes) {
  if (type.size() == 0) return bytes == 0 ? 0 : kUndefined;
  return bytes % type.size() == 0 ? bytes / type.size() : kUndefined;
}

Count elements(const Datatype& type, Count bytes) {
  if (type.size() == 0) return bytes == 0 ? 0 : kUndefined;
  Count found = bytes / type.size() * type.basic_elements();
  Count rest = bytes % type.size();
  if (rest == 0) return found;
  if (type.contents().types.empty()) {  // basic type: only a pair can end after its first element
    const BasicTraits& known = traits_of(type.bounds().basic);
    return known.group == Group::pair && rest == known.value_size ? found + 1 : kUndefined;
  }
  for_each_part(type, [&](const Datatype& part, Count copies) {
    const Count part_bytes = std::min(rest, part.size() * copies);
    const Count inside = part_bytes == 0 ? 0 : elements(part, part_bytes);
    rest -= part_bytes;
    found = inside == kUndefined ? kUndefined : found + inside;
    return rest > 0 && found != kUndefined;
  });
  return found;
}

Count bytes_of_elements(const Datatype& type, Count count) {
  if (type.basic_elements() == 0 || count <= 0) return 0;
  Count bytes = count / type.basic_elements() * type.size();
  Count rest = count % type.basic_elements();
  if (rest == 0) return bytes;
  if (type.contents().types.empty()) return bytes + traits_of(type.bounds().basic).value_size;
  for_each_part(type, [&](const Datatype& part, Count copies) {
    const Count inside = std::min(rest, part.basic_elements() * copies);
    bytes += bytes_of_elements(part, inside);
    rest -= inside;
    return rest > 0;
  });
  return bytes;
}

}  // namespace weft::datatype
