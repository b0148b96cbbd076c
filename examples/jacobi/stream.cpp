// SPDX-License-Identifier: BSD-3-Clause
#include "stream.hpp"

#include <mpi.h>

#if __has_include(<weft.h>)
#include <weft.h>
#endif

namespace jacobi {

void Engine::begin_graph() { throw EngineError(stream_problem()); }
int Engine::end_graph() { throw EngineError(stream_problem()); }
void Engine::launch(int, int) { throw EngineError(stream_problem()); }

#ifdef WEFT_H
namespace {

// A ring of the ranks whose calls are enqueued in the stream of the sweeps. All ranks promise GPU memory and
// no wildcards, so kernels execute the calls within a host.
class StreamHalo final : public Halo {
 public:
  StreamHalo(Engine& engine, const Position& place) : engine_(engine), place_(place) {
    const int periodic = 1;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &place.ranks, &periodic, 0, &ring);
    void* stream = engine.stream();
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPI_Info_set(info, "weft_stream_order", "true");
    MPI_Info_set(info, "weft_stream_kernels", "prefer");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream_create(info, &stream_);
    MPI_Info_free(&info);
    MPIX_Stream_comm_create(ring, stream_, &ring_);
    MPI_Comm_free(&ring);
  }

  ~StreamHalo() override {
    engine_.destroy_graphs();
    MPI_Comm_free(&ring_);
    MPIX_Stream_free(&stream_);
  }

  void begin(float*) override {}

  // Returns at once. The neighbours of a rank are the rank above and the rank below, in this order.
  void finish(float* grid) override {
    static const int counts[] = {1, 1};
    const int nx = place_.nx;
    MPI_Datatype row;
    MPI_Type_contiguous(nx, MPI_FLOAT, &row);
    MPI_Type_commit(&row);
    const auto at = [&](int y) {
      return static_cast<MPI_Aint>(y) * nx * static_cast<MPI_Aint>(sizeof *grid);
    };
    const MPI_Aint outer_rows[] = {at(1), at(place_.rows)}, halos[] = {at(0), at(place_.rows + 1)};
    const MPI_Datatype types[] = {row, row};
    MPI_Neighbor_alltoallw(grid, counts, outer_rows, types, grid, counts, halos, types, ring_);
    MPI_Type_free(&row);
  }

  bool in_stream() const override { return true; }

  void capture(const Sweep& sweep) override {
    if (first_ == nullptr) first_ = sweep.to;
    engine_.begin_graph();
    engine_.sweep(sweep, Part::all);
    finish(sweep.to);
    graph(sweep) = engine_.end_graph();
  }

  void launch(const Sweep& sweep) override { engine_.launch(graph(sweep), sweep.slot); }

 private:
  int& graph(const Sweep& sweep) { return graphs_[sweep.to == first_ ? 0 : 1][sweep.slot >= 0 ? 1 : 0]; }

  Engine& engine_;
  Position place_;
  MPI_Comm ring_ = MPI_COMM_NULL;
  MPIX_Stream stream_ = MPIX_STREAM_NULL;
  const float* first_ = nullptr;  // one of the two grids
  int graphs_[2][2] = {};         // by grid, and without and with norm
};

}  // namespace

std::unique_ptr<Halo> make_stream_halo(Engine& engine, const Position& place) {
  return std::make_unique<StreamHalo>(engine, place);
}

std::string stream_problem() { return {}; }

#else

std::unique_ptr<Halo> make_stream_halo(Engine&, const Position&) { throw EngineError(stream_problem()); }

std::string stream_problem() { return "-variant stream: this program was built without weft.h"; }

#endif

}  // namespace jacobi
