// SPDX-License-Identifier: BSD-3-Clause
// Extension: how a call of weft.h is exported, under both of its names.
#pragma once

#define WEFT_EXPORT __attribute__((visibility("default")))
/// PMPIX_X is defined; MPIX_X is its weak alias.
#define WEFT_ALIAS(name, parameters) __attribute__((weak, alias("P" #name))) WEFT_EXPORT int name parameters
