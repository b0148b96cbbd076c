// SPDX-License-Identifier: BSD-3-Clause
// Every collective in every form on several communicators, compared with the oracle: regular, in-place and
// typed buffers, all roots, sizes on both sides of the protocol and algorithm thresholds.
#include <string>
#include <vector>

#include "coll/expect.hpp"

namespace {

using expect::Field;

using expect::buffer_for;
using expect::Form;
using expect::Layout;
using expect::run;
using reference::fill;
using reference::input;

/// Parameters of one test case.
struct Case {
  MPI_Comm comm;
  int rank, size;
  int n;
  Layout layout;
  Form form;
  bool in_place;
  [[nodiscard]] MPI_Datatype type() const { return expect::type_of(layout); }
  [[nodiscard]] bool affine() const { return layout.words == 2; }
};

const void* send_of(Field& field, bool in_place) { return in_place ? MPI_IN_PLACE : buffer_for(field); }

auto own(const Case& c, int block = 0) {
  return [rank = c.rank, block](int64_t k) { return input(rank, block, k); };
}

void bcast(const Case& c, int root) {
  Field buffer(c.layout, c.n), wanted(c.layout, c.n);
  fill(wanted, 0, c.n, [&](int64_t k) { return input(root, 0, k); });
  run(
      c.form,
      [&] {
        buffer.clear();
        if (c.rank == root) fill(buffer, 0, c.n, own(c));
      },
      [&] { expect::equal(buffer, wanted); }, MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, buffer_for(buffer), c.n,
      c.type(), root, c.comm);
}

/// Buffers of a reduction of n elements with `results` result elements on this rank.
struct Reduction {
  Field send, recv, wanted;
  bool in_place;
  Reduction(const Case& c, int64_t n, int64_t results, bool replaces)
      : send(c.layout, n),
        recv(c.layout, replaces ? std::max(n, results) : results),
        wanted(recv),
        in_place(replaces) {
    fill(send, 0, n, own(c));
    if (replaces) fill(wanted, 0, n, own(c));
  }
  void load(const Case& c, int64_t n) {
    recv.clear();
    if (in_place) fill(recv, 0, n, own(c));
  }
};

void reduce(const Case& c, int root) {
  const bool here = c.rank == root, in_place = c.in_place && here;
  Reduction r(c, c.n, here ? c.n : 0, in_place);
  if (here) fill(r.wanted, 0, c.n, [&](int64_t k) { return reference::reduced(c.size - 1, k, c.affine()); });
  run(
      c.form, [&] { r.load(c, c.n); }, [&] { expect::equal(r.recv, r.wanted); }, MPI_Reduce, MPI_Ireduce,
      MPI_Reduce_init, send_of(r.send, in_place), buffer_for(r.recv), c.n, c.type(), expect::op_of(c.layout),
      root, c.comm);
}

void allreduce(const Case& c) {
  Reduction r(c, c.n, c.n, c.in_place);
  fill(r.wanted, 0, c.n, [&](int64_t k) { return reference::reduced(c.size - 1, k, c.affine()); });
  run(
      c.form, [&] { r.load(c, c.n); }, [&] { expect::equal(r.recv, r.wanted); }, MPI_Allreduce,
      MPI_Iallreduce, MPI_Allreduce_init, send_of(r.send, c.in_place), buffer_for(r.recv), c.n, c.type(),
      expect::op_of(c.layout), c.comm);
}

void scan(const Case& c) {
  Reduction r(c, c.n, c.n, c.in_place);
  fill(r.wanted, 0, c.n, [&](int64_t k) { return reference::reduced(c.rank, k, c.affine()); });
  run(
      c.form, [&] { r.load(c, c.n); }, [&] { expect::equal(r.recv, r.wanted); }, MPI_Scan, MPI_Iscan,
      MPI_Scan_init, send_of(r.send, c.in_place), buffer_for(r.recv), c.n, c.type(), expect::op_of(c.layout),
      c.comm);
}

void exscan(const Case& c) {
  Reduction r(c, c.n, c.n, c.in_place);
  if (c.rank > 0)
    fill(r.wanted, 0, c.n, [&](int64_t k) { return reference::reduced(c.rank - 1, k, c.affine()); });
  run(
      c.form, [&] { r.load(c, c.n); }, [&] { expect::equal(r.recv, r.wanted); }, MPI_Exscan, MPI_Iexscan,
      MPI_Exscan_init, send_of(r.send, c.in_place), buffer_for(r.recv), c.n, c.type(),
      expect::op_of(c.layout), c.comm);
}

void reduce_scatter_block(const Case& c) {
  const int64_t total = int64_t{c.n} * c.size;
  Reduction r(c, total, c.n, c.in_place);
  const int64_t first = int64_t{c.rank} * c.n * c.layout.words;
  fill(r.wanted, 0, c.n, [&](int64_t k) { return reference::reduced(c.size - 1, first + k, c.affine()); });
  run(
      c.form, [&] { r.load(c, total); }, [&] { expect::equal(r.recv, r.wanted); }, MPI_Reduce_scatter_block,
      MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, send_of(r.send, c.in_place),
      buffer_for(r.recv), c.n, c.type(), expect::op_of(c.layout), c.comm);
}

void reduce_scatter(const Case& c) {
  std::vector<int> counts;
  int64_t total = 0, first = 0;
  for (int i = 0; i < c.size; ++i) {
    if (i == c.rank) first = total;
    counts.push_back(c.n * (i % 3));
    total += counts.back();
  }
  const int64_t mine = counts[static_cast<size_t>(c.rank)];
  Reduction r(c, total, mine, c.in_place);
  fill(r.wanted, 0, mine,
       [&](int64_t k) { return reference::reduced(c.size - 1, first * c.layout.words + k, c.affine()); });
  run(
      c.form, [&] { r.load(c, total); }, [&] { expect::equal(r.recv, r.wanted); }, MPI_Reduce_scatter,
      MPI_Ireduce_scatter, MPI_Reduce_scatter_init, send_of(r.send, c.in_place), buffer_for(r.recv),
      static_cast<const int*>(counts.data()), c.type(), expect::op_of(c.layout), c.comm);
}

/// Blocks for or from every rank, in reverse order with a gap after each.
struct Blocks {
  std::vector<int> counts, displacements;
  Field field{reference::kWord, 0};
  template <class F>
  Blocks(const Layout& layout, int blocks, F&& count_of)
      : counts(static_cast<size_t>(blocks)), displacements(counts) {
    int end = 0;
    for (int i = blocks - 1; i >= 0; --i) {
      counts[static_cast<size_t>(i)] = count_of(i);
      displacements[static_cast<size_t>(i)] = end;
      end += counts[static_cast<size_t>(i)] + 1;
    }
    field = Field(layout, end);
  }
  template <class F>
  static void put(Field& into, const Blocks& at, int block, F&& value) {
    fill(into, at.displacements[static_cast<size_t>(block)], at.counts[static_cast<size_t>(block)], value);
  }
};

void gather(const Case& c, int root) {
  const bool here = c.rank == root, in_place = c.in_place && here;
  Field send(c.layout, c.n), recv(c.layout, here ? int64_t{c.n} * c.size : 0), wanted(recv);
  fill(send, 0, c.n, own(c));
  for (int i = 0; here && i < c.size; ++i)
    fill(wanted, int64_t{i} * c.n, c.n, [&](int64_t k) { return input(i, 0, k); });
  run(
      c.form,
      [&] {
        recv.clear();
        if (in_place) fill(recv, int64_t{c.rank} * c.n, c.n, own(c));
      },
      [&] { expect::equal(recv, wanted); }, MPI_Gather, MPI_Igather, MPI_Gather_init, send_of(send, in_place),
      c.n, c.type(), buffer_for(recv), c.n, c.type(), root, c.comm);
}

void gatherv(const Case& c, int root) {
  const bool here = c.rank == root, in_place = c.in_place && here;
  const auto count_of = [&](int i) { return c.n * (i % 3); };
  Blocks recv(c.layout, here ? c.size : 0, count_of);
  Field send(c.layout, count_of(c.rank)), wanted = recv.field;
  fill(send, 0, count_of(c.rank), own(c));
  for (int i = 0; here && i < c.size; ++i)
    Blocks::put(wanted, recv, i, [&](int64_t k) { return input(i, 0, k); });
  run(
      c.form,
      [&] {
        recv.field.clear();
        if (in_place) Blocks::put(recv.field, recv, c.rank, own(c));
      },
      [&] { expect::equal(recv.field, wanted); }, MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init,
      send_of(send, in_place), count_of(c.rank), c.type(), buffer_for(recv.field),
      static_cast<const int*>(recv.counts.data()), static_cast<const int*>(recv.displacements.data()),
      c.type(), root, c.comm);
}

void scatter(const Case& c, int root) {
  const bool here = c.rank == root, in_place = c.in_place && here;
  Field send(c.layout, here ? int64_t{c.n} * c.size : 0), recv(c.layout, c.n), wanted(recv);
  for (int i = 0; here && i < c.size; ++i) fill(send, int64_t{i} * c.n, c.n, own(c, i));
  if (!in_place) fill(wanted, 0, c.n, [&](int64_t k) { return input(root, c.rank, k); });
  run(
      c.form, [&] { recv.clear(); }, [&] { expect::equal(recv, wanted); }, MPI_Scatter, MPI_Iscatter,
      MPI_Scatter_init, static_cast<const void*>(buffer_for(send)), c.n, c.type(),
      const_cast<void*>(send_of(recv, in_place)), c.n, c.type(), root, c.comm);
}

void scatterv(const Case& c, int root) {
  const bool here = c.rank == root, in_place = c.in_place && here;
  const auto count_of = [&](int i) { return c.n * (i % 3); };
  Blocks send(c.layout, here ? c.size : 0, count_of);
  Field recv(c.layout, count_of(c.rank)), wanted(recv);
  for (int i = 0; here && i < c.size; ++i) Blocks::put(send.field, send, i, own(c, i));
  if (!in_place) fill(wanted, 0, count_of(c.rank), [&](int64_t k) { return input(root, c.rank, k); });
  run(
      c.form, [&] { recv.clear(); }, [&] { expect::equal(recv, wanted); }, MPI_Scatterv, MPI_Iscatterv,
      MPI_Scatterv_init, static_cast<const void*>(buffer_for(send.field)),
      static_cast<const int*>(send.counts.data()), static_cast<const int*>(send.displacements.data()),
      c.type(), const_cast<void*>(send_of(recv, in_place)), count_of(c.rank), c.type(), root, c.comm);
}

/// The types may differ if the signatures are equal: the sender uses words.
void allgather(const Case& c) {
  const int words = c.n * c.layout.words;
  Field send(reference::kWord, words), recv(c.layout, int64_t{c.n} * c.size), wanted(recv);
  fill(send, 0, words, own(c));
  for (int i = 0; i < c.size; ++i)
    fill(wanted, int64_t{i} * c.n, c.n, [&](int64_t k) { return input(i, 0, k); });
  run(
      c.form,
      [&] {
        recv.clear();
        if (c.in_place) fill(recv, int64_t{c.rank} * c.n, c.n, own(c));
      },
      [&] { expect::equal(recv, wanted); }, MPI_Allgather, MPI_Iallgather, MPI_Allgather_init,
      send_of(send, c.in_place), c.in_place ? 0 : words, c.in_place ? MPI_DATATYPE_NULL : MPI_UINT32_T,
      buffer_for(recv), c.n, c.type(), c.comm);
}

void allgatherv(const Case& c) {
  const auto count_of = [&](int i) { return c.n * (i % 3); };
  Blocks recv(c.layout, c.size, count_of);
  const int words = count_of(c.rank) * c.layout.words;
  Field send(reference::kWord, words), wanted = recv.field;
  fill(send, 0, words, own(c));
  for (int i = 0; i < c.size; ++i) Blocks::put(wanted, recv, i, [&](int64_t k) { return input(i, 0, k); });
  run(
      c.form,
      [&] {
        recv.field.clear();
        if (c.in_place) Blocks::put(recv.field, recv, c.rank, own(c));
      },
      [&] { expect::equal(recv.field, wanted); }, MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init,
      send_of(send, c.in_place), words, MPI_UINT32_T, buffer_for(recv.field),
      static_cast<const int*>(recv.counts.data()), static_cast<const int*>(recv.displacements.data()),
      c.type(), c.comm);
}

void alltoall(const Case& c) {
  const int64_t total = int64_t{c.n} * c.size;
  Field send(c.layout, total), recv(send), wanted(send);
  const auto outgoing = [&](Field& field) {
    for (int i = 0; i < c.size; ++i) fill(field, int64_t{i} * c.n, c.n, own(c, i));
  };
  outgoing(send);
  for (int i = 0; i < c.size; ++i)
    fill(wanted, int64_t{i} * c.n, c.n, [&](int64_t k) { return input(i, c.rank, k); });
  run(
      c.form, [&] { c.in_place ? outgoing(recv) : recv.clear(); }, [&] { expect::equal(recv, wanted); },
      MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init, send_of(send, c.in_place), c.n, c.type(),
      buffer_for(recv), c.n, c.type(), c.comm);
}

/// Sides of Alltoallv and Alltoallw: sending in words, receiving in the case's layout.
struct Exchange {
  Blocks send, recv;
  Field wanted;
  explicit Exchange(const Case& c)
      : send(reference::kWord, c.size, [&](int i) { return c.n * c.layout.words * ((c.rank + i) % 3); }),
        recv(c.layout, c.size, [&](int i) { return c.n * ((c.rank + i) % 3); }),
        wanted(recv.field) {
    for (int i = 0; i < c.size; ++i) {
      Blocks::put(send.field, send, i, own(c, i));
      Blocks::put(wanted, recv, i, [&](int64_t k) { return input(i, c.rank, k); });
    }
  }
  void load(const Case& c) {
    recv.field.clear();
    for (int i = 0; c.in_place && i < c.size; ++i) Blocks::put(recv.field, recv, i, own(c, i));
  }
};

void alltoallv(const Case& c) {
  Exchange e(c);
  run(
      c.form, [&] { e.load(c); }, [&] { expect::equal(e.recv.field, e.wanted); }, MPI_Alltoallv,
      MPI_Ialltoallv, MPI_Alltoallv_init, send_of(e.send.field, c.in_place),
      static_cast<const int*>(e.send.counts.data()), static_cast<const int*>(e.send.displacements.data()),
      MPI_UINT32_T, buffer_for(e.recv.field), static_cast<const int*>(e.recv.counts.data()),
      static_cast<const int*>(e.recv.displacements.data()), c.type(), c.comm);
}

void alltoallw(const Case& c) {
  Exchange e(c);
  std::vector<int> from(e.send.displacements), to(e.recv.displacements);
  for (int& displacement : from) displacement *= 4;
  for (int& displacement : to) displacement *= c.layout.extent * 4;
  const std::vector<MPI_Datatype> out(from.size(), MPI_UINT32_T), in(to.size(), c.type());
  run(
      c.form, [&] { e.load(c); }, [&] { expect::equal(e.recv.field, e.wanted); }, MPI_Alltoallw,
      MPI_Ialltoallw, MPI_Alltoallw_init, send_of(e.send.field, c.in_place),
      static_cast<const int*>(e.send.counts.data()), static_cast<const int*>(from.data()), out.data(),
      buffer_for(e.recv.field), static_cast<const int*>(e.recv.counts.data()),
      static_cast<const int*>(to.data()), in.data(), c.comm);
}

void barrier(const Case& c) {
  run(
      c.form, [] {}, [] {}, MPI_Barrier, MPI_Ibarrier, MPI_Barrier_init, c.comm);
}

void all(const Case& c) {
  barrier(c);
  allreduce(c);
  scan(c);
  exscan(c);
  reduce_scatter_block(c);
  reduce_scatter(c);
  allgather(c);
  allgatherv(c);
  alltoall(c);
  alltoallv(c);
  alltoallw(c);
  const int step =
      c.n > 1000 && c.size > 2 ? c.size - 1 : 1;  // large sizes: only the first and the last root
  for (int root = 0; root < c.size; root += step) {
    if (!c.in_place) bcast(c, root);
    reduce(c, root);
    gather(c, root);
    gatherv(c, root);
    scatter(c, root);
    scatterv(c, root);
  }
}

void on(MPI_Comm comm, const char* name, const std::vector<int>& sizes) {
  if (comm == MPI_COMM_NULL) return;
  Case c{};
  c.comm = comm;
  MPI_Comm_rank(comm, &c.rank);
  MPI_Comm_size(comm, &c.size);
  for (const int n : sizes)
    for (const Layout& layout : {reference::kWord, reference::kPair, reference::kGaps})
      for (const Form form : expect::kForms)
        for (const bool in_place : {false, true}) {
          c.n = n;
          c.layout = layout;
          c.form = form;
          c.in_place = in_place;
          std::snprintf(expect::situation, sizeof expect::situation,
                        "%s of %d ranks, n %d, %d-word elements, form %d%s", name, c.size, n, layout.extent,
                        static_cast<int>(form), in_place ? ", in place" : "");
          all(c);
        }
}

}  // namespace

/// Arguments: numbers of elements on MPI_COMM_WORLD, instead of the default numbers.
int main(int argc, char** argv) {
  expect::init_memory();
  MPI_Init(&argc, &argv);
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {0, 1, 7, 300, 3000, 20000};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed, halves, most;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
  MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1 ? MPI_UNDEFINED : 1, rank, &most);
  on(MPI_COMM_WORLD, "MPI_COMM_WORLD", sizes);
  on(MPI_COMM_SELF, "MPI_COMM_SELF", {1, 300});
  on(reversed, "reversed", {1, 300});
  on(halves, "halves", {3, 300});
  on(most, "all but the last", {5});
  long least = 0;
  MPI_Allreduce(&expect::checks, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  if (least < 500) expect::fail("too few comparisons were made", least);
  for (MPI_Comm* comm : {&reversed, &halves, &most})
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
  expect::close();
  MPI_Finalize();
  return 0;
}
