// SPDX-License-Identifier: BSD-3-Clause
// Extension: export macros for the functions of weft.h, under their MPIX_ and PMPIX_ names.
#pragma once

#define WEFT_EXPORT __attribute__((visibility("default")))
/// Declares MPIX_X as a weak alias of PMPIX_X.
#define WEFT_ALIAS(name, parameters) __attribute__((weak, alias("P" #name))) WEFT_EXPORT int name parameters
