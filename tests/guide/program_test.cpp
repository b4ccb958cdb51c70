// SPDX-License-Identifier: BSD-3-Clause
// The program of the guide with a custom model. The other blocks use its runs.
#define main guide_program
#include "block_6.inc"
#undef main
