// SPDX-License-Identifier: BSD-3-Clause
#include "halo.hpp"

#include <mpi.h>

#include "stream.hpp"

namespace jacobi {
namespace {

enum Tag { upwards, downwards };  // direction of a row; with two ranks both neighbours are the same rank

// The four rows of an exchange, in a grid.
struct Rows {
  float *upper_halo, *first, *last, *lower_halo;

  Rows(float* grid, const Position& place)
      : upper_halo(grid),
        first(grid + place.nx),
        last(grid + static_cast<size_t>(place.rows) * place.nx),
        lower_halo(last + place.nx) {}
};

void send_and_receive(const Rows& rows, const Position& place) {
  MPI_Sendrecv(rows.first, place.nx, MPI_FLOAT, place.top, upwards, rows.lower_halo, place.nx, MPI_FLOAT,
               place.bottom, upwards, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(rows.last, place.nx, MPI_FLOAT, place.bottom, downwards, rows.upper_halo, place.nx, MPI_FLOAT,
               place.top, downwards, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Passes the rows to MPI in device memory.
class DirectHalo final : public Halo {
 public:
  explicit DirectHalo(const Position& place) : place_(place) {}
  void begin(float*) override {}
  void finish(float* grid) override { send_and_receive(Rows(grid, place_), place_); }

 private:
  Position place_;
};

// Stages the rows through host memory, for an MPI without support for device memory.
class StagedHalo final : public Halo {
 public:
  StagedHalo(Engine& engine, const Position& place)
      : engine_(engine), place_(place), memory_(engine.allocate_staging(4 * static_cast<size_t>(place.nx))) {}

  void begin(float*) override {}

  void finish(float* grid) override {
    const Rows rows(grid, place_);
    Rows staged(memory_, place_);  // four contiguous rows
    staged.last = staged.first + place_.nx;
    staged.lower_halo = staged.last + place_.nx;
    engine_.copy_to_staging(staged.first, rows.first, place_.nx);
    engine_.copy_to_staging(staged.last, rows.last, place_.nx);
    engine_.wait();
    send_and_receive(staged, place_);
    engine_.copy_from_staging(rows.upper_halo, staged.upper_halo, place_.nx);
    engine_.copy_from_staging(rows.lower_halo, staged.lower_halo, place_.nx);
  }

 private:
  Engine& engine_;
  Position place_;
  float* memory_;
};

// Persistent requests: receives are posted before the sweep, all four messages are in flight at once.
class PersistentHalo final : public Halo {
 public:
  PersistentHalo(const Position& place, float* const grids[2]) {
    for (int g = 0; g < 2; ++g) {
      const Rows rows(grids[g], place);
      grids_[g] = grids[g];
      MPI_Request* requests = requests_[g];
      MPI_Recv_init(rows.upper_halo, place.nx, MPI_FLOAT, place.top, downwards, MPI_COMM_WORLD, &requests[0]);
      MPI_Recv_init(rows.lower_halo, place.nx, MPI_FLOAT, place.bottom, upwards, MPI_COMM_WORLD,
                    &requests[1]);
      MPI_Send_init(rows.first, place.nx, MPI_FLOAT, place.top, upwards, MPI_COMM_WORLD, &requests[2]);
      MPI_Send_init(rows.last, place.nx, MPI_FLOAT, place.bottom, downwards, MPI_COMM_WORLD, &requests[3]);
    }
  }

  ~PersistentHalo() override {
    for (auto& requests : requests_) {
      for (MPI_Request& request : requests) MPI_Request_free(&request);
    }
  }

  void begin(float* grid) override { MPI_Startall(2, requests_of(grid)); }

  void finish(float* grid) override {
    MPI_Request* requests = requests_of(grid);
    MPI_Startall(2, requests + 2);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }

 private:
  MPI_Request* requests_of(const float* grid) { return requests_[grid == grids_[0] ? 0 : 1]; }

  float* grids_[2];
  MPI_Request requests_[2][4];
};

// Puts the rows into the halos of the neighbours' grids, whose memory is in a window. A neighbour allows it
// by MPI_Win_post when it has computed its rows, and so does not read its halo any more.
class WindowHalo final : public Halo {
 public:
  WindowHalo(const Position& place, float* const grids[2]) : place_(place) {
    MPI_Sendrecv(&place.rows, 1, MPI_INT, place.bottom, upwards, &rows_above_, 1, MPI_INT, place.top, upwards,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    const int ranks[] = {place.top, place.bottom};
    MPI_Group_incl(all, place.top == place.bottom ? 1 : 2, ranks, &neighbours_);
    MPI_Group_free(&all);
    const MPI_Aint bytes =
        static_cast<MPI_Aint>(place.rows + 2) * place.nx * static_cast<MPI_Aint>(sizeof(float));
    for (int g = 0; g < 2; ++g) {
      grids_[g] = grids[g];
      MPI_Win_create(grids[g], bytes, sizeof(float), MPI_INFO_NULL, MPI_COMM_WORLD, &windows_[g]);
    }
  }

  ~WindowHalo() override {
    for (MPI_Win& window : windows_) MPI_Win_free(&window);
    MPI_Group_free(&neighbours_);
  }

  void begin(float*) override {}

  void finish(float* grid) override {
    const Rows rows(grid, place_);
    MPI_Win window = windows_[grid == grids_[0] ? 0 : 1];
    MPI_Win_post(neighbours_, 0, window);
    MPI_Win_start(neighbours_, 0, window);
    const MPI_Aint lower_halo = static_cast<MPI_Aint>(rows_above_ + 1) * place_.nx;
    MPI_Put(rows.first, place_.nx, MPI_FLOAT, place_.top, lower_halo, place_.nx, MPI_FLOAT, window);
    MPI_Put(rows.last, place_.nx, MPI_FLOAT, place_.bottom, 0, place_.nx, MPI_FLOAT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
  }

 private:
  Position place_;
  int rows_above_ = 0;  // rows of the rank above
  MPI_Group neighbours_ = MPI_GROUP_NULL;
  float* grids_[2];
  MPI_Win windows_[2];
};

}  // namespace

std::unique_ptr<Halo> make_halo(Variant variant, Engine& engine, const Position& place,
                                float* const grids[2]) {
  switch (variant) {
    case Variant::cuda_aware:
      return std::make_unique<DirectHalo>(place);
    case Variant::host_staged:
      return std::make_unique<StagedHalo>(engine, place);
    case Variant::overlap:
      return std::make_unique<PersistentHalo>(place, grids);
    case Variant::window:
      return std::make_unique<WindowHalo>(place, grids);
    case Variant::stream:
      return make_stream_halo(engine, place);
    case Variant::device:
      break;  // without a halo of the host
  }
  return nullptr;
}

}  // namespace jacobi
