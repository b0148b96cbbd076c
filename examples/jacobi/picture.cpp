// SPDX-License-Identifier: BSD-3-Clause
// The file format: Portable Network Graphics (ISO/IEC 15948), a palette image, its data stored uncompressed
// (RFC 1950 and RFC 1951).
#include "picture.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "partition.hpp"

namespace jacobi {
namespace {

constexpr int most_pixels = 1024;  // width and height
using Bytes = std::vector<uint8_t>;

// Division of the grid into squares of `step` cells, one per pixel.
struct Raster {
  int step, width, height;
  [[nodiscard]] int middle(int pixel, int cells) const {
    return std::min(pixel * step + step / 2, cells - 1);
  }
};

Raster raster(const Options& options) {
  const int step = (std::max(options.nx, options.ny) + most_pixels - 1) / most_pixels;
  return {step, (options.nx + step - 1) / step, (options.ny + step - 1) / step};
}

// Returns the global row of a pixel row; rows 0 and ny-1 are copies and belong to no rank.
int shown_row(const Raster& raster, const Options& options, int pixel) {
  return std::clamp(raster.middle(pixel, options.ny), 1, options.ny - 2);
}

// Blue and orange are distinguishable with every kind of colour vision; darker towards the ends, so readable
// in greyscale.
std::array<uint8_t, 3> colour(double value) {
  constexpr double negative[][3] = {{245, 245, 240}, {95, 160, 215}, {15, 50, 120}};
  constexpr double positive[][3] = {{245, 245, 240}, {245, 160, 65}, {125, 45, 5}};
  const auto& stops = value < 0 ? negative : positive;
  const double at = 2 * std::min(std::fabs(value), 1.0);
  const int from = at < 1 ? 0 : 1;
  std::array<uint8_t, 3> made{};
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = static_cast<uint8_t>(
        std::lround(stops[from][i] + (at - from) * (stops[from + 1][i] - stops[from][i])));
  return made;
}

// Palette entries 0 to 254 represent the values -1 to 1.
constexpr int zero = 127;
uint8_t entry(float value) {
  if (std::isnan(value)) return 2 * zero + 1;  // black
  return static_cast<uint8_t>(std::lround(zero + zero * std::clamp(value, -1.0F, 1.0F)));
}

// --- PNG ---

void put32(Bytes& bytes, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(value >> shift));
}

uint32_t crc32(const uint8_t* data, size_t size) {
  uint32_t crc = ~0U;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

void put_chunk(Bytes& png, std::string_view name, const Bytes& content) {
  put32(png, static_cast<uint32_t>(content.size()));
  const size_t start = png.size();
  png.insert(png.end(), name.begin(), name.end());
  png.insert(png.end(), content.begin(), content.end());
  put32(png, crc32(png.data() + start, png.size() - start));
}

// A zlib stream of stored blocks.
Bytes stored(const Bytes& data) {
  constexpr size_t block = 65535;
  Bytes out{0x78, 0x01};
  uint32_t low = 1, high = 0;  // Adler-32
  for (size_t at = 0; at < data.size(); at += block) {
    const size_t size = std::min(block, data.size() - at);
    out.push_back(at + size == data.size() ? 1 : 0);
    for (const size_t length : {size, ~size})
      for (const int shift : {0, 8}) out.push_back(static_cast<uint8_t>(length >> shift));
    out.insert(out.end(), data.begin() + static_cast<ptrdiff_t>(at),
               data.begin() + static_cast<ptrdiff_t>(at + size));
  }
  for (const uint8_t byte : data) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  put32(out, high << 16 | low);
  return out;
}

Bytes encode(const Raster& raster, const Bytes& pixels) {
  Bytes png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, header, palette, lines;
  put32(header, static_cast<uint32_t>(raster.width));
  put32(header, static_cast<uint32_t>(raster.height));
  header.insert(header.end(), {8, 3, 0, 0, 0});  // 8 bits, palette
  for (int i = 0; i <= 2 * zero; ++i)
    for (const uint8_t part : colour(static_cast<double>(i - zero) / zero)) palette.push_back(part);
  palette.insert(palette.end(), {0, 0, 0});
  for (int y = 0; y < raster.height; ++y) {
    lines.push_back(0);  // no filter
    const auto row = pixels.begin() + static_cast<ptrdiff_t>(y) * raster.width;
    lines.insert(lines.end(), row, row + raster.width);
  }
  put_chunk(png, "IHDR", header);
  put_chunk(png, "PLTE", palette);
  put_chunk(png, "IDAT", stored(lines));
  put_chunk(png, "IEND", {});
  return png;
}

void write_file(const std::string& path, const Bytes& bytes) {
  const std::string part = path + ".part";
  FILE* file = std::fopen(part.c_str(), "wb");
  bool good = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file && std::fclose(file) != 0) good = false;
  if (good && std::rename(part.c_str(), path.c_str()) == 0) return;
  const std::string reason = std::strerror(errno);
  std::remove(part.c_str());
  throw EngineError("-plot " + path + ": cannot be written (" + reason + ")");
}

}  // namespace

std::string picture_problem(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (path.size() < 5 || path.substr(path.size() - 4) != ".png")
    return "-plot " + path + ": expected FILE.png";
  if (access(folder.c_str(), W_OK) != 0)
    return "-plot " + path + ": cannot be written (" + std::strerror(errno) + ")";
  return {};
}

void save_picture(Engine& engine, const Options& options, int rank, int ranks, const float* part) {
  const Raster shape = raster(options);
  const Partition rows = partition(options.ny, ranks, rank);
  Bytes mine, all(rank == 0 ? static_cast<size_t>(shape.width) * shape.height : 0);
  std::vector<int> counts(ranks), offsets(ranks);
  std::vector<float> cells(options.nx);
  for (int y = 0, owner = 0; y < shape.height; ++y) {
    const int row = shown_row(shape, options, y);
    while (row >= partition(options.ny, ranks, owner).first + partition(options.ny, ranks, owner).rows)
      ++owner;
    counts[owner] += shape.width;
    if (owner != rank) continue;
    engine.download(cells.data(), part + static_cast<size_t>(row - rows.first + 1) * options.nx, options.nx);
    for (int x = 0; x < shape.width; ++x) mine.push_back(entry(cells[shape.middle(x, options.nx)]));
  }
  for (int i = 1; i < ranks; ++i) offsets[i] = offsets[i - 1] + counts[i - 1];
  MPI_Gatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(), counts.data(), offsets.data(),
              MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank == 0) write_file(options.plot, encode(shape, all));
}

}  // namespace jacobi
