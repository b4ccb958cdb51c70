// SPDX-License-Identifier: BSD-3-Clause
// The guide's program with a custom model. The guide's other code blocks use the runs of this
// program.
#define main guide_program
#include "block_6.inc"
#undef main
