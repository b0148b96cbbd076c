// SPDX-License-Identifier: BSD-3-Clause
#include "random/window.hpp"

#include "coll/expect.hpp"

namespace mixed {

using expect::success;
using oracle::Epoch;

Window::Window(const randomized::Team& team, Draw& draw)
    : ranks_(team.size()), hints_{draw.one_in(6), draw.one_in(5), draw.one_in(3), draw.one_in(2)} {
  success(MPI_Comm_dup(team.comm, &comm_));
  const auto common = draw.of<size_t>({480, 4800, 96000});
  for (int i = 0; i < ranks_; ++i) {
    model_.bytes.push_back(draw.one_in(6)   ? 0
                           : draw.one_in(3) ? draw.of<size_t>({48, 4800, 288000})
                                            : common);
    model_.model.emplace_back(model_.bytes.back());
    model_.undefined.emplace_back(model_.bytes.back(), false);
  }
  window_ = std::make_unique<oracle::Window>(comm_, draw, model_.bytes, hints_);
}

Window::~Window() {
  window_.reset();
  MPI_Comm_free(&comm_);
}

void Window::epoch(Draw& draw, Draw& own, const std::string& where) {
  const Epoch epoch = hints_.no_locks
                          ? draw.of({Epoch::fence, Epoch::pscw})
                          : draw.of({Epoch::fence, Epoch::pscw, Epoch::exclusive, Epoch::shared, Epoch::all});
  const oracle::Rules rules{ranks_, epoch, !hints_.unordered, !hints_.same_op,
                            !hints_.same_op || hints_.no_op};
  for (auto& bytes : model_.undefined) bytes.assign(bytes.size(), false);
  std::vector<oracle::Slot> slots = oracle::draw_slots(draw, model_);
  oracle::Executor(comm_, *window_, model_, slots, 1, where).run(draw, rules, 1 + draw.below(2), own);
}

}  // namespace mixed
