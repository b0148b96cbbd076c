// SPDX-License-Identifier: BSD-3-Clause
#include "rma/oracle/session.hpp"

namespace oracle {
namespace {

int size_of(MPI_Comm comm) {
  int size;
  MPI_Comm_size(comm, &size);
  return size;
}

Windows draw_windows(Draw& draw, int ranks) {
  Windows windows;
  const size_t common = draw.of<size_t>({480, 4800, 96000});
  for (int i = 0; i < ranks; ++i) {
    windows.bytes.push_back(draw.one_in(6)   ? 0
                            : draw.one_in(3) ? draw.of<size_t>({48, 4800, 288000})
                                             : common);
    windows.model.emplace_back(windows.bytes.back());
    windows.undefined.emplace_back(windows.bytes.back(), false);
  }
  return windows;
}

}  // namespace

Session::Session(MPI_Comm comm, Draw& draw)
    : comm_(comm),
      ranks_(size_of(comm)),
      model_(draw_windows(draw, ranks_)),
      hints_{draw.one_in(6), draw.one_in(5), draw.one_in(3), draw.one_in(2)},
      window_(comm, draw, model_.bytes, hints_) {}

long Session::epoch(Draw& draw, Draw& own, int threads, const std::string& where) {
  const Epoch epoch = hints_.no_locks
                          ? draw.of({Epoch::fence, Epoch::pscw})
                          : draw.of({Epoch::fence, Epoch::pscw, Epoch::exclusive, Epoch::shared, Epoch::all});
  const Rules rules{ranks_, epoch, !hints_.unordered, !hints_.same_op, !hints_.same_op || hints_.no_op};
  for (auto& bytes : model_.undefined) bytes.assign(bytes.size(), false);
  std::vector<Slot> slots = draw_slots(draw, model_);
  Executor executor(comm_, window_, model_, slots, threads, where);
  executor.run(draw, rules, 1 + draw.below(3), own);
  return executor.operations();
}

}  // namespace oracle
