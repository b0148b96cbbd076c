// SPDX-License-Identifier: BSD-3-Clause
// Copies between memory and mapped files, of more bytes than caches hold.
// Threading: any thread.
#pragma once
#include <cstddef>

namespace weft::io {

/// Copies `n` bytes. From 4 KiB on the stores bypass the caches, and from 16 KiB on four pages are copied at
/// the same time, so that four streams of reads are in flight: prefetchers of processors stop at the end of a
/// page.
void copy_streaming(std::byte* to, const std::byte* from, size_t n);

}  // namespace weft::io
