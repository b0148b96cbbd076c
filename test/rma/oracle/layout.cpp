// SPDX-License-Identifier: BSD-3-Clause
#include "rma/oracle/layout.hpp"

#include <algorithm>
#include <utility>

namespace oracle {

Layout::Layout(const Element& element)
    : element_(&element), type_(element.type), ub_(element.extent), bytes_(element.extent) {}

Layout::Layout(Draw& draw, const Element& element, std::vector<int> factors) : Layout(element) {
  for (size_t i = factors.size(); i > 1; --i)
    std::swap(factors[i - 1], factors[static_cast<size_t>(draw.below(static_cast<int>(i)))]);
  for (size_t i = 0; i + 1 < factors.size(); ++i) {
    switch (draw.below(5)) {
      case 0:
        contiguous(factors[i]);
        break;
      case 1:
        strided(draw, factors[i]);
        break;
      case 2:
        indexed(draw, factors[i]);
        break;
      case 3:
        structured(draw, factors[i]);
        break;
      case 4:
        resized(draw);
        strided(draw, factors[i]);
    }
  }
  if (owned_) MPI_Type_commit(&type_);
  count_ = factors.back();
  std::vector<size_t> places;
  for (int i = 0; i < count_; ++i) places.push_back(static_cast<size_t>(i) * (ub_ - lb_));
  repeat(places);
  bytes_ = *std::max_element(at_.begin(), at_.end()) + element.extent;
}

Layout::Layout(Layout&& other) noexcept
    : element_(other.element_),
      type_(other.type_),
      count_(other.count_),
      owned_(std::exchange(other.owned_, false)),
      lb_(other.lb_),
      ub_(other.ub_),
      bytes_(other.bytes_),
      at_(std::move(other.at_)) {}

Layout::~Layout() {
  if (owned_) MPI_Type_free(&type_);
}

void Layout::replace(MPI_Datatype type) {
  if (owned_) MPI_Type_free(&type_);
  type_ = type;
  owned_ = true;
}

/// The elements so far, once at each place; the bounds become those of all copies.
void Layout::repeat(const std::vector<size_t>& places) {
  std::vector<size_t> all;
  for (const size_t place : places)
    for (const size_t at : at_) all.push_back(place + at);
  at_ = std::move(all);
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  ub_ += *most;
  lb_ += *least;
}

void Layout::contiguous(int n) {
  MPI_Datatype made;
  MPI_Type_contiguous(n, type_, &made);
  std::vector<size_t> places;
  for (int i = 0; i < n; ++i) places.push_back(static_cast<size_t>(i) * (ub_ - lb_));
  replace(made);
  repeat(places);
}

void Layout::strided(Draw& draw, int n) {
  const size_t extent = ub_ - lb_, gap = static_cast<size_t>(draw.below(3));
  const int block = n % 2 == 0 ? draw.of({1, 2}) : 1;
  const bool in_bytes = draw.one_in(2);
  const size_t stride = static_cast<size_t>(block) * extent + gap * (in_bytes ? element_->extent : extent);
  MPI_Datatype made;
  if (in_bytes)
    MPI_Type_create_hvector(n / block, block, static_cast<MPI_Aint>(stride), type_, &made);
  else
    MPI_Type_vector(n / block, block, static_cast<int>(stride / extent), type_, &made);
  std::vector<size_t> places;
  for (int i = 0; i < n; ++i)
    places.push_back(static_cast<size_t>(i / block) * stride + static_cast<size_t>(i % block) * extent);
  replace(made);
  repeat(places);
}

namespace {

/// Returns n distinct block numbers in random order, with gaps.
std::vector<int> draw_places(Draw& draw, int n) {
  std::vector<int> places;
  for (int i = 0, at = draw.below(2); i < n; ++i, at += 1 + draw.below(4) / 2) places.push_back(at);
  if (draw.one_in(2))
    for (size_t i = places.size(); i > 1; --i)
      std::swap(places[i - 1], places[static_cast<size_t>(draw.below(static_cast<int>(i)))]);
  return places;
}

}  // namespace

void Layout::indexed(Draw& draw, int n) {
  const size_t extent = ub_ - lb_;
  const std::vector<int> blocks = draw_places(draw, n);
  std::vector<size_t> places;
  for (const int block : blocks) places.push_back(static_cast<size_t>(block) * extent);
  MPI_Datatype made;
  if (draw.one_in(2)) {
    MPI_Type_create_indexed_block(n, 1, blocks.data(), type_, &made);
  } else {
    const std::vector<int> lengths(static_cast<size_t>(n), 1);
    MPI_Type_indexed(n, lengths.data(), blocks.data(), type_, &made);
  }
  replace(made);
  repeat(places);
}

void Layout::structured(Draw& draw, int n) {
  const std::vector<int> blocks = draw_places(draw, n), lengths(static_cast<size_t>(n), 1);
  const std::vector<MPI_Datatype> types(static_cast<size_t>(n), type_);
  std::vector<size_t> places;
  std::vector<MPI_Aint> displacements;
  for (const int block : blocks) {
    places.push_back(static_cast<size_t>(block) * (ub_ - lb_));
    displacements.push_back(static_cast<MPI_Aint>(places.back()));
  }
  MPI_Datatype made;
  MPI_Type_create_struct(n, lengths.data(), displacements.data(), types.data(), &made);
  replace(made);
  repeat(places);
}

void Layout::resized(Draw& draw) {
  const size_t extra = static_cast<size_t>(draw.below(3)) * element_->extent;
  MPI_Datatype made;
  MPI_Type_create_resized(type_, static_cast<MPI_Aint>(lb_), static_cast<MPI_Aint>(ub_ - lb_ + extra), &made);
  replace(made);
  ub_ += extra;
}

}  // namespace oracle
