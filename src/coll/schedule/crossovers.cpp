// SPDX-License-Identifier: BSD-3-Clause
// The values were measured on two and four H200 with NVLink (docs/adr/0011-collectives-by-kernels.md).
#include "coll/schedule/crossovers.hpp"

namespace weft::coll::crossover {
namespace {

constexpr size_t kKiB = size_t{1} << 10, kMiB = size_t{1} << 20;
constexpr size_t kLLMost = 2 * kMiB, kLL128Most = 16 * kMiB, kUnlimited = size_t{1} << 40;

}  // namespace

config::Size one_shot_max{
    "coll.gpu_one_shot_max_bytes", 384 * kKiB, 0, 16 * kMiB,
    "Largest total bytes sent per rank for which reductions and broadcasts send the whole vector to every "
    "rank (one-shot); larger ones send one part per rank (two-shot)."};
config::Size ll_max{"coll.gpu_ll_max_bytes", 512 * kKiB, 0, kLLMost,
                    "Largest vector in bytes that uses the LL protocol (a flag beside every 4 bytes), if the "
                    "region has capacity; larger ones use Simple."};
config::Size ll_movement_max{
    "coll.gpu_ll_movement_max_bytes", 512 * kKiB, 0, kLLMost,
    "Largest total bytes sent per rank for which allgather, alltoall, gather, scatter and reduce_scatter on "
    "device buffers use LL; larger ones use Simple."};
config::Size ll128_min{"coll.gpu_ll128_min_bytes", 128 * kKiB, 0, kLL128Most,
                       "Smallest vector, or total bytes sent per rank, that uses the LL128 protocol (112 of "
                       "128 bytes are data); smaller ones use LL."};
config::Size ll128_max{"coll.gpu_ll128_max_bytes", 2 * kMiB, 0, kLL128Most,
                       "Largest vector, or total bytes sent per rank, that uses the LL128 protocol, if the "
                       "region has capacity; larger ones use Simple; 0: never LL128."};
config::Size doorbell_max{
    "coll.gpu_doorbell_max_bytes", 128 * kKiB, 0, 2 * kMiB,
    "Largest message in bytes between two ranks for which the running resident kernel executes a collective; "
    "larger ones launch a kernel. Twice as many bytes between two ranks, and in allgather."};
config::Size movement_max{"coll.gpu_movement_max_bytes", 8 * kMiB, 0, kUnlimited,
                          "Largest block in bytes of allgather, alltoall, gather and scatter that kernels "
                          "move; copy engines move larger ones."};
config::Size pair_max{
    "coll.gpu_pair_max_bytes", 768 * kKiB, 0, kUnlimited,
    "Largest block in bytes that kernels exchange between two ranks; larger ones are sent as messages."};
config::Size direct_min{
    "coll.gpu_direct_min_bytes", 2 * kMiB, 0, kUnlimited,
    "Smallest total bytes sent per rank for which collectives that only move data use coll.gpu_direct."};
config::Size direct_reduce_min{"coll.gpu_direct_reduce_min_bytes", 8 * kMiB, 0, kUnlimited,
                               "Smallest vector in bytes for which float32 sums use coll.gpu_direct."};
config::Size reduce_min{
    "coll.gpu_reduce_min_bytes", 16 * kKiB, 0, kUnlimited,
    "Smallest vector in bytes in GPU memory that a schedule reduces by kernels; smaller ones are reduced in "
    "host copies, which is faster."};

}  // namespace weft::coll::crossover
