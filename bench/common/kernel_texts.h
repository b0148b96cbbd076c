// SPDX-License-Identifier: BSD-3-Clause
// PTX of small kernels, for programs without nvcc: one waits for some ns, the other copies 8-byte elements
// with strides. The emulated driver knows them by their names. Also used by test/p2p.
#pragma once

static const char bench_delay_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry weft_bench_delay(.param .u64 ns) {\n"
    "  .reg .u64 %x<5>;\n  .reg .pred %p;\n"
    "  ld.param.u64 %x1, [ns];\n"
    "  mov.u64 %x2, %globaltimer;\n"
    "again:\n"
    "  mov.u64 %x3, %globaltimer;\n"
    "  sub.s64 %x4, %x3, %x2;\n"
    "  setp.lt.u64 %p, %x4, %x1;\n"
    "  @%p bra again;\n"
    "  ret;\n}\n";

// i: x7, in steps of all threads, x8; strides in bytes: x4 and x5.
static const char bench_copy_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry weft_bench_copy(.param .u64 to, .param .u64 to_stride, .param .u64 from,\n"
    "                                .param .u64 from_stride, .param .u64 count) {\n"
    "  .reg .u64 %x<13>;\n  .reg .u32 %r<5>;\n  .reg .f64 %d;\n  .reg .pred %p;\n"
    "  ld.param.u64 %x1, [to];\n  ld.param.u64 %x2, [from];\n  ld.param.u64 %x3, [count];\n"
    "  ld.param.u64 %x4, [to_stride];\n  ld.param.u64 %x5, [from_stride];\n"
    "  shl.b64 %x4, %x4, 3;\n  shl.b64 %x5, %x5, 3;\n"
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n  mov.u32 %r4, %nctaid.x;\n"
    "  mul.wide.u32 %x6, %r1, %r2;\n  cvt.u64.u32 %x7, %r3;\n  add.u64 %x7, %x7, %x6;\n"
    "  mul.wide.u32 %x8, %r4, %r2;\n"
    "again:\n"
    "  setp.ge.u64 %p, %x7, %x3;\n"
    "  @%p bra done;\n"
    "  mad.lo.u64 %x9, %x7, %x5, %x2;\n"
    "  mad.lo.u64 %x10, %x7, %x4, %x1;\n"
    "  ld.global.f64 %d, [%x9];\n"
    "  st.global.f64 [%x10], %d;\n"
    "  add.u64 %x7, %x7, %x8;\n"
    "  bra again;\n"
    "done:\n"
    "  ret;\n}\n";
